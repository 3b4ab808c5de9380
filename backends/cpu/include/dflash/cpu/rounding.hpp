// Activations of the bf16 tier: rows rounded as numerics::bf16_operand says, four elements at a time.
//
// Integer operations only, so that neither rounding modes nor flushing of the calling thread can show.
#pragma once

#include <cstdint>
#include <cstring>

#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

using u32x4 = std::uint32_t __attribute__((vector_size(16)));
using i32x4 = std::int32_t __attribute__((vector_size(16)));

inline u32x4 load_bits(const float* p) noexcept {
    u32x4 v;
    std::memcpy(&v, p, sizeof(v));
    return v;
}

/// bf16_operand of four floats, in the high halves.
inline u32x4 round_bits(u32x4 x) noexcept {
    const u32x4 upper = {0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U, 0xFFFF0000U};
    const u32x4 sign = x & 0x80000000U;
    const u32x4 nearest = (x + 0x7FFFU + ((x >> 16U) & 1U)) & upper;
    const u32x4 quiet = (x | 0x00400000U) & upper;
    // Magnitudes fit a signed integer, for which the comparison is one instruction everywhere.
    const auto is_nan = reinterpret_cast<u32x4>(reinterpret_cast<i32x4>(x & 0x7FFFFFFFU) > 0x7F800000);
    const u32x4 rounded = (quiet & is_nan) | (nearest & ~is_nan);
    constexpr auto smallest = static_cast<std::int32_t>(numerics::bf16_smallest.bits) << 16;
    const auto is_tiny = reinterpret_cast<u32x4>(reinterpret_cast<i32x4>(rounded & 0x7FFFFFFFU) < smallest);
    return (sign & is_tiny) | (rounded & ~is_tiny);
}

inline std::uint32_t round_bits(float x) noexcept {
    return static_cast<std::uint32_t>(numerics::bf16_operand(x).bits) << 16U;
}

}  // namespace detail

/// out[i] = bf16_operand(x[i]), widened, for i < n.
inline void round_row(const float* x, index n, float* out) noexcept {
    const index whole = n - n % 4;
    for (index i = 0; i < whole; i += 4) {
        const detail::u32x4 rounded = detail::round_bits(detail::load_bits(x + i));
        std::memcpy(out + i, &rounded, sizeof(rounded));
    }
    for (index i = whole; i < n; ++i) {
        out[i] = numerics::from_bits(detail::round_bits(x[i]));
    }
}

/// The same in words of two: bf16_operand(x[2 * i]) in the high half of out[i], of x[2 * i + 1] in the low one, which
/// is +0 behind an odd end. Shape: out ((n + 1) / 2).
inline void round_row(const float* x, index n, std::uint32_t* out) noexcept {
    const index whole = n - n % 8;
    for (index i = 0; i < whole; i += 8) {
        const detail::u32x4 a = detail::round_bits(detail::load_bits(x + i));
        const detail::u32x4 b = detail::round_bits(detail::load_bits(x + i + 4));
        const detail::u32x4 words =
            __builtin_shufflevector(a, b, 0, 2, 4, 6) | __builtin_shufflevector(a, b, 1, 3, 5, 7) >> 16U;
        std::memcpy(out + i / 2, &words, sizeof(words));
    }
    for (index i = whole; i < n; i += 2) {
        out[i / 2] = detail::round_bits(x[i]) | (i + 1 < n ? detail::round_bits(x[i + 1]) >> 16U : 0U);
    }
}

}  // namespace cpu

DFLASH_END_NAMESPACE
