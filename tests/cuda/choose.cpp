// Choosing on the device against the host's samplers: the same token of every row, the same verdict.
#include <array>

#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/acceptance.hpp>

#include "support.hpp"

namespace cuda_tests {

using dflash::categorical;
using dflash::token_id;

namespace {

/// Rows of logits with ties, and, where asked, rows that cannot be used.
matrix random_logits(noise& random, index rows, index vocab, bool bad) {
    matrix logits(rows, vocab, 1);
    for (index r = 0; r < rows; ++r) {
        for (index c = 0; c < vocab; ++c) {
            logits.row(r)[c] = static_cast<float>(random.below(9)) * 0.5F - 2.0F;
        }
        if (bad && random.below(6) == 0) {
            const float values[] = {numerics::not_a_number, numerics::infinity, -numerics::infinity};
            logits.row(r)[random.below(vocab)] = values[random.below(3)];
        }
    }
    return logits;
}

template <class Sampler>
void compare(std::uint64_t seed, const Sampler& sampler, index vocab) {
    const dflash::cuda::exact ops;
    const dflash::cuda::sample_and_match rule(ops);
    noise random(seed);
    for (int round = 0; round < 30; ++round) {
        const index n = random.below(9);
        const matrix logits = random_logits(random, n + 1, vocab, true);
        dflash::buffer<token_id, dflash::cuda::pinned_space> drafts(9);
        const dflash::noise_key key{seed + static_cast<std::uint64_t>(round)};
        const index position = random.below(1000);
        Sampler keyed = sampler;
        if constexpr (requires { keyed.reseed(key); }) {
            keyed.reseed(key);
        }
        for (index i = 0; i < n; ++i) {
            // Mostly what the target will choose, so that verdicts of all lengths occur.
            const std::span<const float> row(logits.row(i), static_cast<std::size_t>(vocab));
            const bool usable = numerics::all_finite(row.data(), vocab);
            drafts[i] = random.below(5) == 0 || !usable ? static_cast<token_id>(random.below(vocab))
                                                        : keyed.pick(row, position + i);
        }
        const std::span<const token_id> guesses(drafts.data(), static_cast<std::size_t>(n));
        const auto right = dflash::sample_and_match{}.accept(
            {.drafts = guesses, .logits = logits.view(), .draft_law = {}, .position = position, .noise = key}, keyed);
        device_matrix on(ops, logits);
        const auto got = rule.accept(
            {.drafts = guesses, .logits = on.view(), .draft_law = {}, .position = position, .noise = key}, sampler);
        CAPTURE(round);
        CHECK(got.accepted == right.accepted);
        CHECK(got.next == right.next);
        CHECK(got.bad_row == right.bad_row);
    }
}

}  // namespace

TEST_CASE("verdicts are those of the host, greedy and sampled") {
    for (const index vocab : {1, 5, 511, 513, 3000}) {
        CAPTURE(vocab);
        compare(static_cast<std::uint64_t>(vocab), dflash::greedy{}, vocab);
        compare(static_cast<std::uint64_t>(vocab), categorical<>({.temperature = 0}), vocab);
        compare(static_cast<std::uint64_t>(vocab), categorical<>({.temperature = 0.7F}), vocab);
        compare(static_cast<std::uint64_t>(vocab), categorical<>({.temperature = 3}), vocab);
    }
}

TEST_CASE("drafts are those of the host, argmax and coupled") {
    const dflash::cuda::exact ops;
    noise random(2);
    const matrix logits = random_logits(random, 15, 700, false);
    device_matrix on(ops, logits);
    dflash::buffer<token_id, dflash::cuda::pinned_space> tokens(15);
    std::array<token_id, 15> right{};
    const dflash::sampling_options warm{.temperature = 1.3F};
    for (const bool coupled : {false, true}) {
        dflash::draft_output<> expected{.tokens = right, .count = 0, .law = {}};
        if (coupled) {
            dflash::coupled_drafts<>(warm).choose(logits.view(), 40, {77}, expected);
        } else {
            dflash::argmax_drafts::choose(logits.view(), 40, {77}, expected);
        }
        dflash::draft_output<device_space> out{.tokens = {tokens.data(), 15}, .count = 0, .law = {}};
        dflash::cuda::draft_choice choice =
            coupled ? dflash::cuda::draft_choice(ops, warm) : dflash::cuda::draft_choice(ops);
        choice.choose(on.view(), 40, {77}, out);
        ops.wait();
        CHECK(out.count == expected.count);
        CHECK(std::equal(right.begin(), right.end(), tokens.data()));
    }
}

TEST_CASE("what needs the host is refused by name") {
    const dflash::cuda::exact ops;
    const auto refused = [&](dflash::sampling_options options, const char* name) {
        try {
            const dflash::cuda::draft_choice choice(ops, options);
            FAIL(name);
        } catch (const dflash::config_error& error) {
            CHECK(std::string(error.what()).find(name) != std::string::npos);
        }
    };
    refused({.temperature = 1, .top_k = 3}, "top_k");
    refused({.temperature = 1, .top_p = 0.5F}, "top_p");
    refused({.temperature = 1, .min_p = 0.5F}, "min_p");
    refused({.temperature = 1, .biases = {{1, 2.0F}}}, "logit_bias");
}

}  // namespace cuda_tests
