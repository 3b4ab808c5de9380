// Which logit is largest, and whether a row of logits is usable. The one tie rule of the library lives here.
#pragma once

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// The lowest index among the largest values; -0 equals +0. A NaN is never chosen over a number, -inf included; a row
/// of NaN only gives 0. n >= 1.
[[nodiscard]] DFLASH_HD inline index argmax(const float* x, index n) {
    index best = 0;
    while (best < n && x[best] != x[best]) {
        ++best;
    }
    if (best == n) {
        return 0;
    }
    float value = x[best];
    for (index i = best + 1; i < n; ++i) {
        if (x[i] > value) {
            value = x[i];
            best = i;
        }
    }
    return best;
}

/// Whether x[0..n) holds neither NaN nor infinity.
[[nodiscard]] DFLASH_HD inline bool all_finite(const float* x, index n) {
    for (index i = 0; i < n; ++i) {
        if (!is_finite(x[i])) {
            return false;
        }
    }
    return true;
}

/// The largest value. NaN is passed over here; it returns through the sums that follow every use. n >= 1.
[[nodiscard]] DFLASH_HD inline float max_value(const float* x, index n) {
    float m = x[0];
    for (index i = 1; i < n; ++i) {
        m = x[i] > m || m != m ? x[i] : m;
    }
    return m;
}

}  // namespace numerics

DFLASH_END_NAMESPACE
