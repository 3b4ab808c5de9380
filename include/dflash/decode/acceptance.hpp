// The default acceptance rule: the target's own sampler draws at every row, drafts are kept while they equal the draw.
//
// The stream is the one serial decoding gives, whatever the draft, at any temperature; with noise that is a function of
// (seed, position, token id) it is the very same tokens. Source: Leviathan et al. 2023 (the deterministic case),
// Gumbel-max coupling. Other rules have headers of their own.
#pragma once

#include <type_traits>

#include <dflash/concepts/acceptance.hpp>
#include <dflash/numerics/argmax.hpp>

DFLASH_BEGIN_NAMESPACE

/// Draw from the target's row, keep the draft while it is equal; the first draw that differs is the correction.
struct sample_and_match {
    static constexpr bool lossless = true;
    static constexpr bool same_tokens = true;

    template <token_sampler Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        if constexpr (sequence_sampler<Sampler>) {
            Sampler ahead = sampler.fork();
            return walk(call, ahead, [&ahead](token_id token) { ahead.advance(token); });
        } else {
            return walk(call, sampler, [](token_id) {});
        }
    }

private:
    template <class Sampler, class Advance>
    static verdict walk(const accept_call<>& call, const Sampler& sampler, Advance advance) {
        const index drafts = size_of(call.drafts);
        for (index i = 0;; ++i) {
            const std::span<const float> row = call.logits.row(i);
            if (!numerics::all_finite(row.data(), size_of(row))) {
                return {.accepted = i, .next = -1, .bad_row = i};
            }
            const token_id token = sampler.pick(row, call.position + i);
            if (token == no_token) {
                return {.accepted = i, .next = -1, .bad_row = i, .fault = row_fault::nothing_left};
            }
            if (i == drafts || token != call.drafts[static_cast<std::size_t>(i)]) {
                return {.accepted = i, .next = token, .bad_row = -1};
            }
            advance(token);
        }
    }
};

DFLASH_END_NAMESPACE
