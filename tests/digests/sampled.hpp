// Digests of sampling: filters, penalties, noise and draws on fixed rows, and texts decoded under an acceptance rule.
#pragma once

#include <array>
#include <vector>

#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/numerics/digest.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/constrained.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/sampling/penalties.hpp>

#include "support/random_model.hpp"

namespace dflash::test {

inline void add_token(numerics::digest& into, token_id token) {
    into.add(static_cast<std::uint64_t>(token));
}

inline void add_scored(numerics::digest& into, const token_log_probability& entry) {
    add_token(into, entry.token);
    into.add(std::span<const float>(&entry.log_probability, 1));
}

/// Every filter alone, all of them together, and the best token.
inline std::vector<sampling_options> sampling_settings() {
    std::vector<sampling_options> all(7);
    all[1].temperature = 0.7F;
    all[2].top_k = 5;
    all[3].top_p = 0.8F;
    all[4].min_p = 0.1F;
    all[5] = {.temperature = 1.7F, .top_k = 12, .top_p = 0.95F, .min_p = 0.01F, .biases = {{2, 1.25F}, {3, -2.0F}}};
    all[6].temperature = 0.0F;
    return all;
}

/// Rows of logits through penalties, filters and draws.
inline void sample_rows(numerics::digest& into) {
    constexpr index vocab = 70;
    random_source random(5);
    for (const sampling_options& options : sampling_settings()) {
        token_filter filter(options);
        penalties costs({.repetition = 1.3F, .frequency = 0.4F, .presence = 0.2F});
        costs.start();
        for (index position = 0; position < 12; ++position) {
            std::vector<float> row(vocab);
            for (float& x : row) {
                x = 2.0F * random.normal();
            }
            const scored_token scored = log_probability_recorder::score(row, 1, 4);
            add_scored(into, scored.chosen);
            for (const token_log_probability& entry : scored.top) {
                add_scored(into, entry);
            }
            costs.apply(row);
            into.add(row);
            filter.apply(row);
            into.add(row);
            const noise_key key{random.bits()};
            const token_id token = philox_noise::draw(key, noise_stream::token, position, row);
            add_token(into, token);
            costs.advance(token);
            const float noise = philox_noise::gumbel(key, noise_stream::draft, position, token);
            into.add(std::span<const float>(&noise, 1));
            token_weights weights;
            weights.assign(row);
            into.add(numerics::to_bits(weights.total));
            add_token(into, philox_noise::weighted(key, noise_stream::redraw, position, weights.weight));
            into.add(numerics::to_bits(philox_noise::uniform(key, noise_stream::accept, position)));
            numerics::softmax(row.data(), vocab, row.data());
            into.add(row);
        }
    }
}

/// One text under one rule, with the log-probabilities of its tokens.
template <class Rule, class Choice, class Target, class Draft>
void sample_text(numerics::digest& into, Target& big, Draft& small, const sampling_options& options) {
    using drafter_type = dflash_drafter<Draft, Target, no_observer, Choice>;
    using sampler_type = constrained<categorical<>, penalties>;
    drafter_type drafter(small, big, {}, Choice(options));
    const sampler_type sampler(categorical<>(options), penalties({.repetition = 1.1F, .frequency = 0.3F}));
    std::vector<scored_token> entries;
    speculative_decoder<Target, drafter_type, sampler_type, Rule, fixed_block, log_probability_recorder> decoder(
        big, drafter, fixed_block(5), sampler, {}, log_probability_recorder(&entries));
    const std::array<token_id, 3> prompt = {0, 1, 2};
    generation_limits limits;
    limits.max_new_tokens = 20;
    decoder.generate(prompt, limits, noise_key{99});
    for (const scored_token& entry : entries) {
        add_scored(into, entry.chosen);
    }
}

}  // namespace dflash::test
