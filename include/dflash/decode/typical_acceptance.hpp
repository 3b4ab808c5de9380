// Medusa's typical acceptance: a draft stands if the target finds it plausible enough. Fast, and lossy: what comes out
// does not follow the target's law, and the type says so.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/log.hpp>

DFLASH_BEGIN_NAMESPACE

/// The threshold min(epsilon, delta e^-H), with H the entropy of the target's law in nats.
struct typical_options {
    float epsilon = 0.09F;  ///< in [0, 1]: never ask for more
    float delta = 0.3F;     ///< in [0, 1]: share of the probability a token of a flat law would have
};

/// An acceptance_rule that is not lossless. Source: Cai et al. 2024 (Medusa), section 2.3.1.
class typical_acceptance {
public:
    static constexpr bool lossless = false;
    static constexpr bool same_tokens = false;

    typical_acceptance() = default;
    /// Errors: config_error.
    explicit typical_acceptance(typical_options options) : options_(options) {
        if (!(options.epsilon >= 0 && options.epsilon <= 1)) {
            raise<config_error>("typical epsilon: got ", options.epsilon, ", needs 0 .. 1");
        }
        if (!(options.delta >= 0 && options.delta <= 1)) {
            raise<config_error>("typical delta: got ", options.delta, ", needs 0 .. 1");
        }
    }

    template <law_sampler Sampler>
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
    verdict walk(const accept_call<>& call, const Sampler& sampler, Advance advance) const {
        const index drafts = size_of(call.drafts);
        for (index i = 0;; ++i) {
            const std::span<const float> row = call.logits.row(i);
            if (!numerics::all_finite(row.data(), size_of(row))) {
                return {.accepted = i, .next = -1, .bad_row = i};
            }
            if (i < drafts) {
                const token_id draft = call.drafts[static_cast<std::size_t>(i)];
                scores_.resize(row.size());
                if (!sampler.scores(row, scores_)) {
                    return {.accepted = i, .next = -1, .bad_row = i, .fault = row_fault::nothing_left};
                }
                p_.assign(scores_);
                if (p_.probability(draft) > threshold()) {
                    advance(draft);
                    continue;
                }
            }
            const token_id token = sampler.pick(row, call.position + i);
            return {
                .accepted = i, .next = token, .bad_row = token == no_token ? i : -1, .fault = row_fault::nothing_left};
        }
    }

    [[nodiscard]] double threshold() const {
        double entropy = 0;  // -sum p log p
        for (const double w : p_.weight) {
            if (w > 0) {
                const auto p = static_cast<float>(w / p_.total);
                entropy = entropy - static_cast<double>(p) * static_cast<double>(numerics::log(p));
            }
        }
        const double flat =
            static_cast<double>(options_.delta) * static_cast<double>(numerics::exp(static_cast<float>(-entropy)));
        return (std::min)(static_cast<double>(options_.epsilon), flat);
    }

    typical_options options_;
    mutable std::vector<float> scores_;  // (v)
    mutable token_weights p_;            // (v)
};

DFLASH_END_NAMESPACE
