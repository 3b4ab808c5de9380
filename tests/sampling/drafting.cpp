// How drafts are chosen: laws that belong to the draws, sparse and dense alike; coupling as good as promised.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/testing/report.hpp>

namespace dflash::test {

namespace {

static_assert(draft_choice<argmax_drafts>);
static_assert(draft_choice<coupled_drafts<>>);
static_assert(draft_choice<sampled_drafts<>>);

std::vector<float> some_rows(testing::dice& die, index rows, index vocab) {
    std::vector<float> out(static_cast<std::size_t>(rows * vocab));
    for (float& x : out) {
        x = 6.0F * die.fraction() - 3.0F;
    }
    return out;
}

}  // namespace

TEST_CASE("sampled drafts: the law is the filtered one, dense or sparse") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        testing::dice die(seed);
        const index vocab = 2 + die.below(30);
        const index rows = 1 + die.below(6);
        const std::vector<float> values = some_rows(die, rows, vocab);
        const matrix_view<const float> logits(values.data(), rows, vocab);
        const sampling_options options{.temperature = die.below(5) == 0 ? 0.0F : 0.5F + die.fraction(),
                                       .top_k = die.below(2) == 0 ? 0 : 1 + die.below(vocab),
                                       .top_p = die.below(2) == 0 ? 1.0F : 0.7F};
        sampled_drafts<> choice(options);
        std::vector<token_id> tokens(static_cast<std::size_t>(rows));
        draft_output<> out{.tokens = tokens, .count = 0, .law = {}};
        choice.choose(logits, 10, {seed}, out);
        REQUIRE(out.count == rows);
        REQUIRE(out.law.rows() == rows);
        CHECK((out.law.sparse.rows() > 0) == (options.top_k > 0 || options.temperature == 0));
        token_filter filter(options);
        for (index i = 0; i < rows; ++i) {
            std::vector<float> scores(logits.row(i).begin(), logits.row(i).end());
            REQUIRE(filter.apply(scores));
            std::vector<float> weights(static_cast<std::size_t>(vocab), 0.0F);
            detail::visit_law(out.law, i, [&](token_id t, float w) { weights[static_cast<std::size_t>(t)] = w; });
            for (std::size_t t = 0; t < scores.size(); ++t) {
                CHECK(weights[t] == numerics::exp(scores[t]));
            }
            CHECK(tokens[static_cast<std::size_t>(i)] ==
                  philox_noise::draw({seed}, noise_stream::draft, 10 + i, scores));
        }
    }
}

TEST_CASE("coupled drafts are what the target's sampler would pick") {
    testing::dice die(5);
    const std::vector<float> values = some_rows(die, 8, 19);
    const matrix_view<const float> logits(values.data(), 8, 19);
    const sampling_options options{.temperature = 0.9F, .top_k = 10};
    coupled_drafts<> choice(options);
    categorical<> sampler(options);
    sampler.reseed({77});
    std::vector<token_id> tokens(8);
    draft_output<> out{.tokens = tokens, .count = 0, .law = {}};
    choice.choose(logits, 30, {77}, out);
    CHECK(out.count == 8);
    CHECK(out.law.rows() == 0);
    for (index i = 0; i < 8; ++i) {
        CHECK(tokens[static_cast<std::size_t>(i)] == sampler.pick(logits.row(i), 30 + i));
    }
    argmax_drafts::choose(logits, 30, {77}, out);
    for (index i = 0; i < 8; ++i) {
        CHECK(tokens[static_cast<std::size_t>(i)] == greedy{}.pick(logits.row(i), 0));
    }
}

TEST_CASE("coupled draws agree at least (1 - TV) / (1 + TV) of the time, independent ones less") {
    for (const float distance : {0.0F, 0.5F, 1.5F, 4.0F}) {
        testing::dice die(11);
        constexpr std::size_t vocab = 12;
        std::vector<float> p(vocab);
        std::vector<float> q(vocab);
        for (std::size_t t = 0; t < vocab; ++t) {
            p[t] = 4.0F * die.fraction();
            q[t] = p[t] + distance * (die.fraction() - 0.5F);
        }
        token_filter filter;
        REQUIRE(filter.apply(p));
        REQUIRE(filter.apply(q));
        const double p_total = total_weight(p);
        const double q_total = total_weight(q);
        double tv = 0;
        double meet = 0;
        for (std::size_t t = 0; t < vocab; ++t) {
            const double a = static_cast<double>(numerics::exp(p[t])) / p_total;
            const double b = static_cast<double>(numerics::exp(q[t])) / q_total;
            tv += std::fabs(a - b) / 2;
            meet += a * b;
        }
        constexpr index draws = 20000;
        index coupled = 0;
        index independent = 0;
        for (index position = 0; position < draws; ++position) {
            const token_id drawn = philox_noise::draw({1}, noise_stream::token, position, p);
            coupled += drawn == philox_noise::draw({1}, noise_stream::token, position, q) ? 1 : 0;
            independent += drawn == philox_noise::draw({1}, noise_stream::draft, position, q) ? 1 : 0;
        }
        const double slack = 5 * std::sqrt(0.25 / static_cast<double>(draws));
        const double share = static_cast<double>(coupled) / static_cast<double>(draws);
        CHECK(share >= (1 - tv) / (1 + tv) - slack);
        CHECK(share <= 1 - tv + slack);
        CHECK(std::fabs(static_cast<double>(independent) / static_cast<double>(draws) - meet) < slack);
        if (distance == 0) {
            CHECK(coupled == draws);
        }
    }
}

}  // namespace dflash::test
