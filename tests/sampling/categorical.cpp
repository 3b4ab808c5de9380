// The sampler as a whole: conformance, temperature 0, top-k 1, supports of one token, frequencies.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/testing/conformance.hpp>

namespace dflash::test {

static_assert(token_sampler<categorical<>>);
static_assert(law_sampler<categorical<>>);
static_assert(!sequence_sampler<categorical<>>);

TEST_CASE("categorical conforms, with every option") {
    const sampling_options all[] = {{},
                                    {.temperature = 0},
                                    {.temperature = 0.5F, .top_k = 5},
                                    {.top_p = 0.7F},
                                    {.min_p = 0.1F},
                                    {.temperature = 2, .top_k = 40, .top_p = 0.9F, .min_p = 0.01F, .biases = {{3, 1}}}};
    for (const sampling_options& options : all) {
        const testing::report found = testing::check_sampler_conformance(categorical<>(options), 23);
        CHECK_MESSAGE(found.passed(), found.text());
    }
}

TEST_CASE("temperature 0 is greedy") {
    categorical<> cold({.temperature = 0, .top_k = 7, .top_p = 0.3F});
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        testing::dice die(seed);
        std::vector<float> logits(17);
        for (float& x : logits) {
            x = static_cast<float>(die.below(5));
        }
        cold.reseed({seed});
        CHECK(cold.pick(logits, die.below(1000)) == greedy{}.pick(logits, 0));
    }
}

TEST_CASE("top_k = 1 is greedy at any temperature, ties included") {
    index tied = 0;
    for (const float t : {1e-3F, 1.0F, 5.0F}) {
        categorical<> one({.temperature = t, .top_k = 1});
        for (std::uint64_t seed = 0; seed < 400; ++seed) {
            testing::dice die(seed);
            std::vector<float> logits(static_cast<std::size_t>(1 + die.below(40)));
            const bool coarse = die.below(2) == 0;
            for (float& x : logits) {
                x = coarse ? static_cast<float>(die.below(3)) : 8.0F * die.fraction() - 4.0F;
            }
            const float largest = *std::ranges::max_element(logits);
            tied += std::ranges::count(logits, largest) > 1 ? 1 : 0;
            one.reseed({seed});
            CHECK(one.pick(logits, die.below(1000)) == greedy{}.pick(logits, 0));
        }
    }
    CHECK(tied > 300);
}

TEST_CASE("a support of one token, and of none") {
    std::vector<float> masked(11, -numerics::infinity);
    masked[8] = -1e30F;
    std::vector<float> nothing(11, -numerics::infinity);
    for (const float t : {0.0F, 0.01F, 1.0F, 100.0F}) {
        categorical<> sampler({.temperature = t});
        for (index position = 0; position < 50; ++position) {
            CHECK(sampler.pick(masked, position) == 8);
            CHECK(sampler.pick(nothing, position) == no_token);
        }
    }
}

TEST_CASE("200,000 draws follow the law") {
    // Chi-square over the support; the seed is fixed, so this passes always or never.
    const std::vector<float> logits = {0.0F, 1.0F, -1.0F, 2.5F, 0.5F, -3.0F, 1.5F, 2.4F, -0.5F, 0.25F};
    categorical<> sampler({.temperature = 0.8F, .top_k = 8, .top_p = 0.98F});
    sampler.reseed({20260401});
    std::vector<float> scores(logits.size());
    REQUIRE(sampler.scores(logits, scores));
    const double total = total_weight(scores);
    constexpr index draws = 200000;
    std::vector<index> count(logits.size(), 0);
    for (index position = 0; position < draws; ++position) {
        ++count[static_cast<std::size_t>(sampler.pick(logits, position))];
    }
    double chi_square = 0;
    int cells = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const double expected = static_cast<double>(draws) * static_cast<double>(numerics::exp(scores[i])) / total;
        if (expected == 0) {
            CHECK(count[i] == 0);
            continue;
        }
        chi_square += std::pow(static_cast<double>(count[i]) - expected, 2) / expected;
        ++cells;
    }
    MESSAGE("chi-square " << chi_square << " over " << cells << " cells");
    REQUIRE(cells >= 6);
    CHECK(chi_square < 22.0);  // 6 degrees of freedom: 22.5 has probability 0.001
    CHECK(chi_square > 0.5);   // too good would be no chance either
}

}  // namespace dflash::test
