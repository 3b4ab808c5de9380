// Filters against a plain reading of their definition, on rows with ties, and their answers at the edges.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <dflash/sampling/filters.hpp>
#include <dflash/testing/report.hpp>

namespace dflash::test {

namespace {

using row = std::vector<float>;
constexpr float gone = -numerics::infinity;

row filtered(row logits, sampling_options options) {
    token_filter filter(std::move(options));
    REQUIRE(filter.apply(logits));
    return logits;
}

std::vector<token_id> left(const row& scores) {
    std::vector<token_id> ids;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] > gone) {
            ids.push_back(static_cast<token_id>(i));
        }
    }
    return ids;
}

/// The definition, sorting everything.
row plain(row scores, const sampling_options& o) {
    for (const logit_bias& b : o.biases) {
        scores[static_cast<std::size_t>(b.token)] += b.bias;
    }
    const float largest = *std::ranges::max_element(scores);
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    std::size_t kept = scores.size();
    if (o.temperature == 0) {
        row out(scores.size(), gone);
        out[order[0]] = 0;
        return out;
    }
    row out(scores.size(), gone);
    for (std::size_t i = 0; i < scores.size(); ++i) {
        scores[i] = (scores[i] - largest) / o.temperature;
    }
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    kept = o.top_k > 0 ? (std::min)(kept, static_cast<std::size_t>(o.top_k)) : kept;
    if (o.top_p < 1) {
        double total = 0;
        for (std::size_t i = 0; i < kept; ++i) {
            total += static_cast<double>(numerics::exp(scores[order[i]]));
        }
        double sum = 0;
        std::size_t n = 0;
        while (n < kept && sum < static_cast<double>(o.top_p) * total) {
            sum += static_cast<double>(numerics::exp(scores[order[n++]]));
        }
        kept = n;
    }
    for (std::size_t i = 0; i < kept; ++i) {
        if (numerics::exp(scores[order[i]]) >= o.min_p) {
            out[order[i]] = scores[order[i]];
        }
    }
    return out;
}

}  // namespace

TEST_CASE("filters do what their definition says") {
    int narrowed = 0;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
        testing::dice die(seed);
        row logits(static_cast<std::size_t>(1 + die.below(60)));
        const index kind = die.below(4);
        for (float& x : logits) {
            x = kind == 0 ? static_cast<float>(die.below(4)) : 20.0F * die.fraction();
            x = kind == 1 ? 200.0F * die.fraction() : x;
        }
        sampling_options o;
        const float temperatures[] = {0.0F, 0.25F, 1.0F, 1.0F, 3.0F};
        o.temperature = temperatures[die.below(5)];
        o.top_k = die.below(2) == 0 ? 0 : 1 + die.below(size_of(std::span(logits)) + 2);
        o.top_p = die.below(2) == 0 ? 1.0F : 0.01F + 0.98F * die.fraction();
        o.min_p = die.below(2) == 0 ? 0.0F : die.fraction();
        if (die.below(3) == 0) {
            o.biases.push_back({die.token(size_of(std::span(logits))), 3.0F * die.fraction() - 1.0F});
        }
        const row got = filtered(logits, o);
        CHECK(got == plain(logits, o));
        CHECK(*std::ranges::max_element(got) == 0.0F);
        narrowed += left(got).size() < logits.size() ? 1 : 0;
    }
    CHECK(narrowed > 1000);
}

TEST_CASE("the order of the filters shows") {
    // e^0 : e^-ln2 : e^-ln4 ... as 8 : 4 : 2 : 2
    const float ln2 = 0.6931472F;
    const row logits = {3 * ln2, 2 * ln2, ln2, ln2};
    // top-p of what top-k left: 8 / 12 reaches 0.6, 8 / 16 does not.
    CHECK(left(filtered(logits, {.top_k = 2, .top_p = 0.6F})) == std::vector<token_id>{0});
    CHECK(left(filtered(logits, {.top_p = 0.6F})) == std::vector<token_id>{0, 1});
    // Temperature comes before min-p: the third token has 1/4 of the first, at T = 2 it has 1/2.
    CHECK(left(filtered(logits, {.min_p = 0.3F})) == std::vector<token_id>{0, 1});
    CHECK(left(filtered(logits, {.temperature = 2, .min_p = 0.3F})) == std::vector<token_id>{0, 1, 2, 3});
    // Bias comes before everything.
    CHECK(left(filtered(logits, {.top_k = 1, .biases = {{3, 10.0F}}})) == std::vector<token_id>{3});
}

TEST_CASE("ties fall to the lower id") {
    const row equal(6, 1.5F);
    CHECK(left(filtered(equal, {.top_k = 2})) == std::vector<token_id>{0, 1});
    CHECK(left(filtered(equal, {.top_p = 0.5F})) == std::vector<token_id>{0, 1, 2});
    CHECK(left(filtered(equal, {.temperature = 0})) == std::vector<token_id>{0});
    CHECK(left(filtered(equal, {.min_p = 1})) == std::vector<token_id>{0, 1, 2, 3, 4, 5});
    CHECK(left(filtered({-0.0F, 0.0F}, {.temperature = 0})) == std::vector<token_id>{0});
}

TEST_CASE("edges: more than there is, less than one token, huge and tiny temperatures") {
    const row logits = {1.0F, 3.0F, 2.0F};
    CHECK(left(filtered(logits, {.top_k = 3})).size() == 3);
    CHECK(left(filtered(logits, {.top_k = 1000000})).size() == 3);
    CHECK(left(filtered(logits, {.top_p = 1e-30F})) == std::vector<token_id>{1});
    CHECK(left(filtered(logits, {.min_p = 1})) == std::vector<token_id>{1});
    CHECK(left(filtered({0.0F, -87.0F, -88.0F}, {.min_p = 1e-45F})) == std::vector<token_id>{0, 1});
    // Probabilities that round to 1 are those of the likeliest; the next lower ones are not.
    CHECK(left(filtered({0.0F, -1e-9F, -1e-6F}, {.min_p = 1})) == std::vector<token_id>{0, 1});
    CHECK(left(filtered(logits, {.temperature = 1e-45F})) == std::vector<token_id>{1});
    CHECK(filtered({1.0F, 3e38F, -3e38F}, {.temperature = 1e-30F}) == row{gone, 0.0F, gone});
    CHECK(left(filtered({-1e38F, 1e38F}, {.temperature = 3e38F})).size() == 2);
    CHECK(left(filtered({-3e38F, 3e38F}, {.temperature = 3e38F})).size() == 1);  // the difference is no float
    CHECK(filtered({5.0F}, {.temperature = 0.5F, .top_k = 1, .top_p = 0.5F, .min_p = 0.5F}) == row{0.0F});
}

TEST_CASE("forbidden tokens stay out; when all are, the filter says so") {
    CHECK(left(filtered({9.0F, 1.0F, 2.0F}, {.biases = {{0, gone}}})) == std::vector<token_id>{1, 2});
    CHECK(left(filtered({9.0F, 1.0F, gone}, {.temperature = 0, .biases = {{0, gone}}})) == std::vector<token_id>{1});
    token_filter filter({.biases = {{0, gone}, {1, gone}}});
    row both = {1.0F, 2.0F};
    CHECK_FALSE(filter.apply(both));
    row masked(4, gone);
    CHECK_FALSE(token_filter{}.apply(masked));
}

TEST_CASE("a bias outside the vocabulary is refused") {
    token_filter filter({.biases = {{7, 1.0F}}});
    row short_row = {1.0F, 2.0F};
    CHECK_THROWS_WITH_AS(filter.apply(short_row), "logit_bias: token 7 is outside the vocabulary of 2", config_error);
}

}  // namespace dflash::test
