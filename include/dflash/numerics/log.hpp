// The natural logarithm and log1p in f32, from fma and integer operations alone.
//
// Monotone; log within 0.89 ulp, log1p within 0.93 ulp. (Measured over every float by tests/numerics/exhaustive.cpp,
// program numerics_exhaustive.) The argument of log1p should be a stored value or an exact product: a compiler may fuse
// a rounded one into the sum 1 + x.
#pragma once

#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/polynomial.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// The constants of log and log1p, for kernels that compute them in lanes. Frozen.
///
/// q is fpminimax(log(1 + x), degrees 2..10 in binary32, [-1/3, 1/3], relative, constrained part x), a Sollya command;
/// approximation error 2^-27.6. ln2_hi has 14 significant bits, so that k * ln2_hi is exact.
struct log_constants {
    static constexpr std::uint32_t two_thirds = 0x3F2AAAABU;  ///< the pattern of 2/3: mantissas run over [2/3, 4/3)
    static constexpr float ln2_hi = 0x1.62e4p-1F;
    static constexpr float ln2_lo = 0x1.7f7d1cp-20F;
    /// log(1 + f) = f + f^2 (q[0] + q[1] f + ... + q[8] f^8)
    static constexpr float q[9] = {-0x1p-1F,      0x1.555502p-2F,  -0x1.ffff14p-3F, 0x1.99d1c6p-3F, -0x1.559802p-3F,
                                   0x1.1ec0dp-3F, -0x1.f3a7dep-4F, 0x1.1ec6e2p-3F,  -0x1.06cdfap-3F};
};

namespace detail {

/// k ln 2 + log(1 + f) + low, for an integer k, |f| <= 0.334 and a low that is at most an ulp of f.
DFLASH_HD inline float join_log(float k, float f, float low) {
    using c = log_constants;
    const float q = horner<log_constants::q>(f);
    const float rest = fma(f * f, q, fma(k, c::ln2_lo, low));
    // The two large terms are added without loss (their product with k is exact, and |k ln2| > |f| unless k = 0), so
    // that the last addition is the only rounding that counts. This makes the result monotone and nearly correctly
    // rounded; adding in any other order loses one of the two.
    const float head = fma(k, c::ln2_hi, f);
    const float tail = f - fma(-k, c::ln2_hi, head);
    return head + (tail + rest);
}

}  // namespace detail

/// ln x. log(+-0) = -inf, log(x < 0) = NaN, log(+inf) = +inf, log(1) = +0; subnormal arguments are exact like others.
DFLASH_HD inline float log(float x) {
    if (x != x) {
        return x;
    }
    if (x < 0.0F) {
        return not_a_number;
    }
    if (x == 0.0F) {
        return -infinity;
    }
    if (x == infinity) {
        return x;
    }
    float scale = 0.0F;
    if (x < 0x1p-126F) {  // subnormal: scaled up exactly, so that the exponent field means what it says
        x = x * 0x1p24F;
        scale = -24.0F;
    }
    const std::uint32_t bits = to_bits(x);
    const std::int32_t k = static_cast<std::int32_t>(bits - log_constants::two_thirds) >> 23;
    const float m = from_bits(bits - (static_cast<std::uint32_t>(k) << 23));
    return detail::join_log(static_cast<float>(k) + scale, m - 1.0F, 0.0F);
}

/// ln(1 + x). log1p(-1) = -inf, log1p(x < -1) = NaN, log1p(+inf) = +inf, log1p(+-0) = +-0.
DFLASH_HD inline float log1p(float x) {
    if (x != x) {
        return x;
    }
    if (x < -1.0F) {
        return not_a_number;
    }
    if (x == -1.0F) {
        return -infinity;
    }
    if (x == infinity || x == 0.0F) {
        return x;
    }
    // 1 + x = 2^k (1 + f). k comes from the rounded sum; f is formed from x itself, so that what the sum lost is
    // not lost here, and what the rounding of f loses comes back as lost / (1 + f), to first order.
    const float sum = 1.0F + x;
    const std::int32_t k = static_cast<std::int32_t>(to_bits(sum) - log_constants::two_thirds) >> 23;
    if (k > 30) {  // 1 is below a quarter ulp of x here, and 2^-k below might be subnormal
        const float m = from_bits(to_bits(x) - (static_cast<std::uint32_t>(k) << 23));
        return detail::join_log(static_cast<float>(k), m - 1.0F, 0.0F);
    }
    const float shrink = from_bits(static_cast<std::uint32_t>(127 - k) << 23);
    const float f = fma(x, shrink, shrink - 1.0F);
    const float lost = fma(x, shrink, (shrink - 1.0F) - f);
    return detail::join_log(static_cast<float>(k), f, fma(-f, lost, lost));
}

}  // namespace numerics

DFLASH_END_NAMESPACE
