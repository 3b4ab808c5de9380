// Sums along a contiguous axis: chunks of 256, 32 lanes, a fixed fold, chunk sums added in order.
//
// 32 lanes are one warp, two AVX-512 registers or eight NEON registers, so every machine can keep this order at speed.
#pragma once

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// Elements of one chunk, counted from element 0 of the summed axis.
inline constexpr index sum_chunk = 256;
/// Lanes of a chunk: element i of a chunk goes to lane i mod 32.
inline constexpr index sum_width = 32;

namespace detail {

/// The shape of the sum. `step(lane, i)` returns the lane with element i taken in.
template <class Step>
DFLASH_HD float sum_lanes_of(Step step, index n) {
    float total = 0.0F;
    for (index start = 0; start < n; start += sum_chunk) {
        const index count = n - start < sum_chunk ? n - start : sum_chunk;
        float lane[sum_width] = {};
        for (index i = 0; i < count; ++i) {
            lane[i % sum_width] = step(lane[i % sum_width], start + i);
        }
        for (index half = sum_width / 2; half > 0; half /= 2) {
            for (index j = 0; j < half; ++j) {
                lane[j] = lane[j] + lane[j + half];
            }
        }
        total = total + lane[0];
    }
    return total;
}

struct add_step {
    const float* x;
    DFLASH_HD float operator()(float lane, index i) const { return lane + x[i]; }
};

struct square_step {
    const float* x;
    DFLASH_HD float operator()(float lane, index i) const { return fma(x[i], x[i], lane); }
};

}  // namespace detail

/// Sum of x[0..n). n = 0 gives +0.
DFLASH_HD inline float sum_lanes(const float* x, index n) {
    return detail::sum_lanes_of(detail::add_step{x}, n);
}

/// Sum of squares of x[0..n). n = 0 gives +0.
DFLASH_HD inline float sum_squares_lanes(const float* x, index n) {
    return detail::sum_lanes_of(detail::square_step{x}, n);
}

}  // namespace numerics

DFLASH_END_NAMESPACE
