// The correctly rounded building blocks of the exact arithmetic: fma, rint, sqrt, division, and bit casts.
//
// Everything else in numerics/ is made of these and of + - * and comparisons. Nothing here approximates; each function
// is one IEEE-754 operation, rounded to nearest even, on the CPU and on a CUDA device alike.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// The meaning of every operation, as one small scalar function each. Backends are tested against these bit for bit.
namespace numerics {

/// a * b + c with one rounding.
DFLASH_HD inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

/// a * b + c with one rounding.
DFLASH_HD inline double fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
    return __fma_rn(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

/// The nearest integer, ties to even. An instruction, not the addition of a magic number, which compilers contract.
DFLASH_HD inline float rint(float x) {
#if defined(__CUDA_ARCH__)
    return ::rintf(x);
#else
    return std::rint(x);
#endif
}

/// The nearest integer, ties to even.
DFLASH_HD inline double rint(double x) {
#if defined(__CUDA_ARCH__)
    return ::rint(x);
#else
    return std::rint(x);
#endif
}

/// The correctly rounded square root.
DFLASH_HD inline float sqrt(float x) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return std::sqrt(x);
#endif
}

/// The correctly rounded square root.
DFLASH_HD inline double sqrt(double x) {
#if defined(__CUDA_ARCH__)
    return __dsqrt_rn(x);
#else
    return std::sqrt(x);
#endif
}

/// The correctly rounded quotient. A function because device compilers may otherwise be told to approximate it.
DFLASH_HD inline float divide(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

/// The binary32 pattern of x.
DFLASH_HD inline std::uint32_t to_bits(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    return std::bit_cast<std::uint32_t>(x);
#endif
}

/// The float with this binary32 pattern.
DFLASH_HD inline float from_bits(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    return std::bit_cast<float>(bits);
#endif
}

/// The binary64 pattern of x.
DFLASH_HD inline std::uint64_t to_bits(double x) {
#if defined(__CUDA_ARCH__)
    return static_cast<std::uint64_t>(__double_as_longlong(x));
#else
    return std::bit_cast<std::uint64_t>(x);
#endif
}

/// The double with this binary64 pattern.
DFLASH_HD inline double from_bits(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
    return __longlong_as_double(static_cast<long long>(bits));
#else
    return std::bit_cast<double>(bits);
#endif
}

/// The same number, except that every NaN becomes the one pattern 7FC00000: payloads differ between machines.
DFLASH_HD inline std::uint32_t canonical_bits(float x) {
    return x != x ? 0x7FC00000U : to_bits(x);
}

/// Whether x is neither NaN nor infinite.
DFLASH_HD inline bool is_finite(float x) {
    return (to_bits(x) & 0x7F800000U) != 0x7F800000U;
}

/// The size of x with the sign of s.
DFLASH_HD inline float copy_sign(float x, float s) {
    return from_bits((to_bits(x) & 0x7FFFFFFFU) | (to_bits(s) & 0x80000000U));
}

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
inline constexpr double infinity64 = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number64 = std::numeric_limits<double>::quiet_NaN();

}  // namespace numerics

DFLASH_END_NAMESPACE
