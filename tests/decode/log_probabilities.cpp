// Log-probabilities: the numbers, the order of the likeliest, one entry for each committed token.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/sampling/categorical.hpp>
#include <support/table_pair.hpp>

namespace dflash::test {

TEST_CASE("one row: numbers, ties, more than there is") {
    const std::vector<float> row = {1.0F, 3.0F, 3.0F, -2.0F};
    const double total = std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0);
    const scored_token scored = log_probability_recorder::score(row, 0, 99);
    CHECK(static_cast<double>(scored.chosen.log_probability) == doctest::Approx(1.0 - std::log(total)).epsilon(1e-6));
    REQUIRE(scored.top.size() == 4);
    const token_id order[] = {1, 2, 0, 3};
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(scored.top[i].token == order[i]);
        CHECK(static_cast<double>(scored.top[i].log_probability) ==
              doctest::Approx(static_cast<double>(row[static_cast<std::size_t>(order[i])]) - std::log(total))
                  .epsilon(1e-6));
    }
    CHECK(log_probability_recorder::score(row, 3, 0).top.empty());
    CHECK(log_probability_recorder::score(std::vector<float>{5.0F}, 0, 1).chosen.log_probability == 0.0F);
    CHECK_THROWS_WITH_AS(log_probability_recorder(nullptr, -1), "logprobs: got -1, needs 0 or more", config_error);
}

TEST_CASE("one entry for each committed token, of the raw law, at every end") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        table_target target(5, seed);
        generation_limits limits;
        limits.max_new_tokens = static_cast<index>(seed % 9);
        limits.stop_tokens = {3};
        limits.stop_sequences = {{1, 2}};
        // The law that is sampled is far from the raw one.
        const categorical<> sampler({.temperature = 1.7F, .top_k = 4, .biases = {{0, 1.5F}}});
        std::vector<scored_token> entries;
        table_drafter<coupled_drafts<>> drafter(target, kinship::slot, false, coupled_drafts<>(sampler.options()));
        speculative_decoder<table_target, decltype(drafter), categorical<>, sample_and_match, fixed_block,
                            log_probability_recorder>
            decoder(target, drafter, fixed_block(4), sampler, {}, log_probability_recorder(&entries, 2));
        const std::vector<token_id> prompt = {1, 0};
        const std::vector<token_id> said = decoder.generate(prompt, limits, noise_key{seed}).tokens;
        REQUIRE(entries.size() == said.size());
        std::vector<token_id> prefix = prompt;
        for (std::size_t i = 0; i < said.size(); ++i) {
            CHECK(entries[i] == log_probability_recorder::score(target.logits(prefix), said[i], 2));
            prefix.push_back(said[i]);
        }
    }
}

}  // namespace dflash::test
