// A linear layer applied to one row: one dot chain per output, then the bias.
#pragma once

#include <dflash/numerics/dot.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// y[o] = dot_chain(w[o, :], x) (+ bias[o] when bias is not null). W is float, bf16 or f16. y overlaps nothing.
/// Shapes: w (n, k) row-major, bias (n), x (k), y (n).
template <class W>
DFLASH_HD void linear(const W* w, const float* bias, const float* x, index k, index n, float* y) {
    for (index o = 0; o < n; ++o) {
        const float dot = dot_chain(w + o * k, x, k);
        y[o] = bias != nullptr ? dot + bias[o] : dot;
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
