// SiLU, its gated product, and the residual addition.
#pragma once

#include <dflash/numerics/exp.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// x / (1 + e^-x). silu(-inf) is NaN, as the formula says (-inf / inf).
DFLASH_HD inline float silu(float x) {
    return divide(x, 1.0F + exp(-x));
}

/// silu(gate) * up.
DFLASH_HD inline float silu_mul(float gate, float up) {
    return silu(gate) * up;
}

/// The residual sum y = h + o. y may be h or o. Shapes: h, o, y (n).
DFLASH_HD inline void add(const float* h, const float* o, index n, float* y) {
    for (index i = 0; i < n; ++i) {
        y[i] = h[i] + o[i];
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
