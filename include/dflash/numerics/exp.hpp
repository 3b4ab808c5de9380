// The exponential in f32, from fma and integer operations alone.
//
// Monotone over all inputs, within 0.98 ulp, never subnormal: below the lower threshold the result is +0. (Measured
// over every float by tests/numerics/exhaustive.cpp, program numerics_exhaustive.)
#pragma once

#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/polynomial.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// The constants of exp, for kernels that compute it in lanes. Frozen: the bits of every softmax depend on them.
///
/// g is fpminimax(exp(x), degrees 2..7 in binary32, [-0.34662, 0.34662], relative, constrained part 1 + x), a Sollya
/// command; approximation error 2^-32.8. ln2_hi has 14 significant bits, so n * ln2_hi is exact for every n that
/// occurs.
struct exp_constants {
    static constexpr float high = 0x1.62e42ep+6F;   ///< above: +inf
    static constexpr float low = -0x1.5d589ep+6F;   ///< below: +0
    static constexpr float log2e = 0x1.715476p+0F;  ///< 1 / ln 2
    static constexpr float ln2_hi = 0x1.62e4p-1F;
    static constexpr float ln2_lo = 0x1.7f7d1cp-20F;
    /// exp(r) = 1 + r + r^2 (g[0] + g[1] r + ... + g[5] r^5)
    static constexpr float g[6] = {0x1p-1F,        0x1.555552p-3F,  0x1.5554e4p-5F,
                                   0x1.1115b4p-7F, 0x1.6d5146p-10F, 0x1.9a980cp-13F};
};

namespace detail {

/// exp(x) - 1 = 2^n (1 + p) - 1 without the last rounding: what exp and tanh share. x lies between the thresholds.
struct exp_parts {
    float n;  ///< an integer
    float p;  ///< exp(r) - 1, with r = x - n ln 2 and |r| <= 0.3467
};

DFLASH_HD inline exp_parts split_exp(float x) {
    using c = exp_constants;
    const float n = rint(x * c::log2e);
    float r = fma(n, -c::ln2_hi, x);
    r = fma(n, -c::ln2_lo, r);
    const float g = horner<exp_constants::g>(r);
    // The large term r enters last and exactly: a plain Horner scheme from the top would not be monotone.
    return {n, fma(r * r, g, r)};
}

}  // namespace detail

/// e^x. NaN gives NaN; x > high gives +inf; x < low gives +0; exp(+-0) = 1.
DFLASH_HD inline float exp(float x) {
    if (x != x) {
        return x;
    }
    if (x > exp_constants::high) {
        return infinity;
    }
    if (x < exp_constants::low) {
        return 0.0F;
    }
    const detail::exp_parts parts = detail::split_exp(x);
    const float y = 1.0F + parts.p;
    // Times 2^n through the exponent field. n may be 128 (then y < 1), which no float factor could express.
    const std::uint32_t shift = static_cast<std::uint32_t>(static_cast<std::int32_t>(parts.n)) << 23;
    return from_bits(to_bits(y) + shift);
}

}  // namespace numerics

DFLASH_END_NAMESPACE
