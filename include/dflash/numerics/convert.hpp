// Between f32 and the two 16-bit formats: exact when widening, nearest even when narrowing, NaN stays NaN.
//
// No truncation, no flushing, no saturation: what overflows becomes infinity, as IEEE-754 says.
#pragma once

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// Itself, so that templates over element types need no special case.
DFLASH_HD inline float to_float(float x) {
    return x;
}

/// Exact: bf16 is the upper half of a binary32.
DFLASH_HD inline float to_float(bf16 x) {
    return from_bits(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Exact, subnormals included.
DFLASH_HD inline float to_float(f16 x) {
    const std::uint32_t sign = (static_cast<std::uint32_t>(x.bits) & 0x8000U) << 16;
    const std::uint32_t rest = static_cast<std::uint32_t>(x.bits) & 0x7FFFU;
    if (rest >= 0x7C00U) {  // infinity or NaN: all exponent bits set in the wider format too
        return from_bits(sign | 0x7F800000U | ((rest & 0x3FFU) << 13));
    }
    if (rest >= 0x0400U) {
        return from_bits(sign | ((rest << 13) + ((127U - 15U) << 23)));
    }
    // Zero or subnormal: rest * 2^-24, an exact product.
    const float size = static_cast<float>(rest) * 0x1p-24F;
    return from_bits(sign | to_bits(size));
}

/// Round to nearest even. NaN stays NaN (quiet, sign and upper payload kept); values past the largest become infinite.
DFLASH_HD inline bf16 to_bf16(float x) {
    const std::uint32_t bits = to_bits(x);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
        // Cutting a NaN could leave an infinity (payload only in the lower half): set the quiet bit.
        return bf16{static_cast<std::uint16_t>((bits >> 16) | 0x0040U)};
    }
    // Adding 7FFF, or 8000 when the kept part is odd, carries exactly when nearest even rounds up.
    return bf16{static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

/// Round to nearest even. NaN stays NaN (quiet); values that round past 65504 become infinite; subnormals are rounded.
DFLASH_HD inline f16 to_f16(float x) {
    const std::uint32_t bits = to_bits(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t size = bits & 0x7FFFFFFFU;
    if (size > 0x7F800000U) {
        return f16{static_cast<std::uint16_t>(sign | 0x7E00U | ((size >> 13) & 0x3FFU))};
    }
    if (size >= 0x477FF000U) {  // 65520, halfway between 65504 and 2^16: ties go to even, which is infinity
        return f16{static_cast<std::uint16_t>(sign | 0x7C00U)};
    }
    if (size >= 0x38800000U) {  // normal in f16: at least 2^-14
        const std::uint32_t rebased = size - ((127U - 15U) << 23);
        return f16{static_cast<std::uint16_t>(sign | ((rebased + 0xFFFU + ((rebased >> 13) & 1U)) >> 13))};
    }
    // Subnormal in f16: the nearest multiple of 2^-24. Scaling by 2^24 is exact here, so one rint rounds once.
    const float scaled = rint(from_bits(size) * 0x1p24F);
    return f16{static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(scaled))};
}

}  // namespace numerics

DFLASH_END_NAMESPACE
