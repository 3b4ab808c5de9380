// The bf16 tier: with activation_type::bf16, a linear with bf16 weights rounds its input to bf16 once and then computes
// as ever, in f32.
//
// Magnitudes below 2^-40 count as zero on both sides. Then every product and every partial sum is a multiple of 2^-94,
// no subnormal can arise, and a bf16 dot instruction that flushes them gives the same bits as one that does not.
#pragma once

#include <dflash/numerics/convert.hpp>
#include <dflash/numerics/dot.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// 2^-40 as bf16: the smallest magnitude that takes part.
inline constexpr bf16 bf16_smallest{0x2B80U};

/// A weight as linear reads it: itself, or a zero of its sign below 2^-40. Infinity and NaN stay.
DFLASH_HD inline bf16 bf16_operand(bf16 x) {
    return (x.bits & 0x7FFFU) < bf16_smallest.bits ? bf16{static_cast<std::uint16_t>(x.bits & 0x8000U)} : x;
}

/// An activation as linear reads it: rounded to nearest even first, then zero below 2^-40.
DFLASH_HD inline bf16 bf16_operand(float x) {
    return bf16_operand(to_bf16(x));
}

namespace detail {

template <class T>
struct bf16_operands {
    const T* data;
    DFLASH_HD float operator()(index i) const { return to_float(bf16_operand(data[i])); }
};

}  // namespace detail

/// linear in the bf16 tier: one dot chain over the operands per output, then the bias. y overlaps nothing.
/// Shapes: w (n, k) row-major, bias (n) or null, x (k), y (n).
DFLASH_HD inline void linear_bf16(const bf16* w, const float* bias, const float* x, index k, index n, float* y) {
    for (index o = 0; o < n; ++o) {
        const float dot =
            detail::dot_chain_of(detail::bf16_operands<bf16>{w + o * k}, detail::bf16_operands<float>{x}, k);
        y[o] = bias != nullptr ? dot + bias[o] : dot;
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
