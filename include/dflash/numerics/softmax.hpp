// The vocabulary softmax: one maximum, exponentials below it, one sum in the order of sum_lanes.
//
// Filters may have set logits to -inf before: such entries have probability +0. At least one logit must be finite.
#pragma once

#include <dflash/numerics/argmax.hpp>
#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/log.hpp>
#include <dflash/numerics/sum.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// What the probabilities of a row share: p[i] = exp(x[i] - max) / sum.
struct softmax_norm {
    float max;
    float sum;  ///< at least 1
};

namespace detail {

struct exp_step {
    const float* x;
    float max;
    DFLASH_HD float operator()(float lane, index i) const { return lane + exp(x[i] - max); }
};

}  // namespace detail

/// max and sum_lanes(exp(x - max)). Shape: x (v), n >= 1.
[[nodiscard]] DFLASH_HD inline softmax_norm normalise(const float* x, index n) {
    const float max = max_value(x, n);
    return {max, detail::sum_lanes_of(detail::exp_step{x, max}, n)};
}

/// ln of the sum of e^x[i]: max + log(sum). Shape: x (v), n >= 1.
[[nodiscard]] DFLASH_HD inline float log_sum_exp(const float* x, index n) {
    const softmax_norm norm = normalise(x, n);
    return norm.max + log(norm.sum);
}

/// The log-probability of a logit in a row whose norm is known: (x - max) - log(sum).
[[nodiscard]] DFLASH_HD inline float log_probability(float logit, softmax_norm norm) {
    return (logit - norm.max) - log(norm.sum);
}

/// The log-probability of entry i. Shape: x (v), 0 <= i < n.
[[nodiscard]] DFLASH_HD inline float log_probability(const float* x, index n, index i) {
    return log_probability(x[i], normalise(x, n));
}

/// p[i] = exp(x[i] - max) / sum. p may be x. Shapes: x, p (v), n >= 1.
DFLASH_HD inline void softmax(const float* x, index n, float* p) {
    const softmax_norm norm = normalise(x, n);
    for (index i = 0; i < n; ++i) {
        p[i] = divide(exp(x[i] - norm.max), norm.sum);
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
