// What a user may ask of sampling, and which of it makes sense.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

/// Added to the logit of one token.
struct logit_bias {
    token_id token = 0;
    float bias = 0;  ///< -inf forbids the token
};

/// The law of the next token, made from a row of logits in this order: bias, temperature, top-k, top-p, min-p.
/// The defaults leave the model's own law. sampling/filters.hpp says what each does and how ties fall.
struct sampling_options {
    float temperature = 1.0F;          ///< >= 0; 0: always the best token
    index top_k = 0;                   ///< >= 0; keep so many tokens; 0, or more than there are: all
    float top_p = 1.0F;                ///< in (0, 1]; keep the likeliest that have this much together; 1: all
    float min_p = 0.0F;                ///< in [0, 1]; keep those with at least this share of the likeliest; 0: all
    std::vector<logit_bias> biases{};  ///< each token at most once
};

/// Errors: config_error that names the option, what it is and what it may be.
inline void check(const sampling_options& options) {
    const auto needs = [](bool good, const char* name, float got, const char* range) {
        if (!good) {
            raise<config_error>(name, ": got ", got, ", needs ", range);
        }
    };
    // Comparisons are written so that NaN fails them.
    needs(options.temperature >= 0 && options.temperature < numerics::infinity, "temperature", options.temperature,
          "0 (the best token) or a positive number");
    needs(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "a number above 0 and at most 1");
    needs(options.min_p >= 0 && options.min_p <= 1, "min_p", options.min_p, "0 .. 1");
    if (options.top_k < 0) {
        raise<config_error>("top_k: got ", options.top_k, ", needs 0 (off) or more");
    }
    for (std::size_t i = 0; i < options.biases.size(); ++i) {
        const logit_bias& entry = options.biases[i];
        if (entry.token < 0) {
            raise<config_error>("logit_bias: entry ", i, " is for token ", entry.token, ", needs 0 or more");
        }
        if (!(entry.bias >= -1e30F && entry.bias <= 1e30F) && entry.bias != -numerics::infinity) {
            raise<config_error>("logit_bias: token ", entry.token, " has ", entry.bias,
                                ", needs -1e30 .. 1e30, or -inf to forbid it");
        }
        for (std::size_t j = 0; j < i; ++j) {
            if (options.biases[j].token == entry.token) {
                raise<config_error>("logit_bias: token ", entry.token, " is given twice, with ", options.biases[j].bias,
                                    " and ", entry.bias);
            }
        }
    }
}

DFLASH_END_NAMESPACE
