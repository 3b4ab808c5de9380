// Repetition, frequency and presence penalties, as a constraint.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

/// What each token that occurred costs. The defaults cost nothing.
struct penalty_options {
    float repetition = 1;  ///< > 0: a logit x of a token of prompt or text becomes x / r where x > 0, else x * r
    float frequency = 0;   ///< taken off once for every time the token was generated (the prompt does not count)
    float presence = 0;    ///< taken off once if the token was generated
};

/// A token_constraint. The repetition penalty comes first, then frequency and presence.
class penalties {
public:
    penalties() = default;
    /// Errors: config_error.
    explicit penalties(penalty_options options) : options_(options) {
        const auto needs = [](bool good, const char* name, float got, const char* range) {
            if (!good) {
                raise<config_error>(name, ": got ", got, ", needs ", range);
            }
        };
        // Written so that NaN fails. The bounds keep every logit finite that is.
        needs(options.repetition >= 1e-6F && options.repetition <= 1e6F, "repetition_penalty", options.repetition,
              "1e-6 .. 1e6 (1: none)");
        needs(options.frequency >= -1e6F && options.frequency <= 1e6F, "frequency_penalty", options.frequency,
              "-1e6 .. 1e6");
        needs(options.presence >= -1e6F && options.presence <= 1e6F, "presence_penalty", options.presence,
              "-1e6 .. 1e6");
    }

    void start() noexcept { generating_ = true; }

    void advance(token_id token) {
        const auto at = std::lower_bound(seen_.begin(), seen_.end(), token,
                                         [](const entry& e, token_id id) { return e.token < id; });
        const index more = generating_ ? 1 : 0;
        if (at != seen_.end() && at->token == token) {
            at->generated += more;
        } else {
            seen_.insert(at, entry{token, more});
        }
    }

    void apply(std::span<float> logits) const {
        for (const entry& e : seen_) {
            float& x = logits[static_cast<std::size_t>(e.token)];
            if (options_.repetition != 1) {
                x = within(x > 0 ? numerics::divide(x, options_.repetition) : x * options_.repetition);
            }
            if (e.generated > 0) {
                // One rounding for each step, in this order; a product feeds the sum only through fma.
                x = within(numerics::fma(-options_.frequency, static_cast<float>(e.generated), x));
                x = within(x - options_.presence);
            }
        }
    }

private:
    struct entry {
        token_id token;
        index generated;
    };

    /// The largest floats stand for what would overflow; -inf (forbidden) stays.
    static float within(float x) {
        constexpr float most = 0x1.fffffep127F;
        return x == numerics::infinity ? most : x;
    }

    penalty_options options_;
    std::vector<entry> seen_;  // ascending ids
    bool generating_ = false;
};

DFLASH_END_NAMESPACE
