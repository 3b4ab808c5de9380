// RMSNorm over one row.
#pragma once

#include <dflash/numerics/sum.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// y = (x * r) * weight with r = 1 / sqrt(mean(x^2) + eps), all in f32. y may be x. Shapes: x, weight, y (n).
DFLASH_HD inline void rms_norm(const float* x, const float* weight, float eps, index n, float* y) {
    const float mean = divide(sum_squares_lanes(x, n), static_cast<float>(n));
    const float r = divide(1.0F, sqrt(mean + eps));
    for (index i = 0; i < n; ++i) {
        y[i] = (x[i] * r) * weight[i];
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
