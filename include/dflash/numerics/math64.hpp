// exp2, log2 and sine/cosine in f64, for tables that are computed once and rounded to f32.
//
// Built from fma and correctly rounded operations alone, so the tables are the same bits everywhere; accurate to about
// 2^-50, so that rounding to f32 almost always gives the nearest float. Arguments should be stored values, quotients or
// conversions: a compiler may fuse a bare product into the first subtraction of exp2.
#pragma once

#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/polynomial.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// The constants of the f64 functions. Frozen. All are results of Sollya's fpminimax in binary64, relative error.
struct math64_constants {
    /// 2^r = 1 + r (exp2[0] + ... + exp2[11] r^11) on [-1/2, 1/2], error 2^-59
    static constexpr double exp2[12] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58dp-3,  0x1.c6b08d704a182p-5,
                                        0x1.3b2ab6fba53b8p-7,  0x1.5d87fe7888dffp-10, 0x1.430912f7013a2p-13,
                                        0x1.ffcbfcdb1c5bdp-17, 0x1.62c027b683ceap-20, 0x1.b524232262994p-24,
                                        0x1.e4bbc00d37bp-28,   0x1.eafdc2f6d54aap-32, 0x1.de49d600a7dc3p-36};
    /// log2((1 + s) / (1 - s)) = s (log2[0] + log2[1] s^2 + ... + log2[7] s^14) on |s| <= 0.1716, error 2^-56
    static constexpr double log2[8] = {0x1.71547652b82fep1,  0x1.ec709dc3a062ap-1, 0x1.2776c50ebd135p-1,
                                       0x1.a61763075dd88p-2, 0x1.484aeba1592e3p-2, 0x1.0ca421f49a354p-2,
                                       0x1.c3f11ed9c36e5p-3, 0x1.b9ffc3c05ce5ep-3};
    /// sin r = r + r^3 (sin[0] + sin[1] r^2 + ... + sin[5] r^10) on |r| <= pi/4, error 2^-58
    static constexpr double sin[6] = {-0x1.5555555555548p-3, 0x1.111111110f76p-7,    -0x1.a01a019bf2b7ap-13,
                                      0x1.71de355fa46d5p-19, -0x1.ae5e54ffce7d4p-26, 0x1.5d8e6226d3873p-33};
    /// cos r = 1 - r^2 / 2 + r^4 (cos[0] + cos[1] r^2 + ... + cos[5] r^10) on |r| <= pi/4, error 2^-64
    static constexpr double cos[6] = {0x1.555555555554bp-5,   -0x1.6c16c16c15018p-10, 0x1.a01a019c8f942p-16,
                                      -0x1.27e4f7f1ee40dp-22, 0x1.1ee9dc126f59fp-29,  -0x1.8fa6a86831e75p-37};
    static constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
    /// pi/2 in three parts, each the nearest double to what the parts before leave
    static constexpr double half_pi_1 = 0x1.921fb54442d18p0;
    static constexpr double half_pi_2 = 0x1.1a62633145c07p-54;
    static constexpr double half_pi_3 = -0x1.f1976b7ed8fbcp-110;
    static constexpr double two_pi = 0x1.921fb54442d18p2;
    static constexpr double ln2 = 0x1.62e42fefa39efp-1;
};

/// 2^x to about 1 ulp for results in the normal range; below it +0, above it +inf. NaN gives NaN.
DFLASH_HD inline double exp2(double x) {
    if (x != x) {
        return x;
    }
    if (x >= 1024.0) {
        return infinity64;
    }
    if (x < -1022.0) {
        return 0.0;
    }
    const double n = rint(x);
    const double r = x - n;
    const double p = detail::horner<math64_constants::exp2>(r);
    const double y = fma(p, r, 1.0);
    const auto shift = static_cast<std::uint64_t>(static_cast<std::int64_t>(n)) << 52;
    return from_bits(to_bits(y) + shift);
}

/// log2 x to a few ulp, for normal positive x. log2(0) = -inf, log2(x < 0) = NaN; subnormal x are taken exactly.
DFLASH_HD inline double log2(double x) {
    if (x != x || x == infinity64) {
        return x;
    }
    if (x < 0.0) {
        return not_a_number64;
    }
    if (x == 0.0) {
        return -infinity64;
    }
    double scale = 0.0;
    if (x < 0x1p-1022) {
        x = x * 0x1p54;
        scale = -54.0;
    }
    constexpr std::uint64_t root_half = 0x3FE6A09E667F3BCDU;  // the pattern of sqrt(1/2): mantissas run to sqrt(2)
    const std::uint64_t bits = to_bits(x);
    const std::int64_t k = static_cast<std::int64_t>(bits - root_half) >> 52;
    const double m = from_bits(bits - (static_cast<std::uint64_t>(k) << 52));
    const double s = (m - 1.0) / (m + 1.0);
    const double square = s * s;
    const double p = detail::horner<math64_constants::log2>(square);
    return fma(p, s, static_cast<double>(k) + scale);
}

/// Sine and cosine of one angle.
struct sine_cosine {
    double sin;
    double cos;
};

/// Sine and cosine, to about 2^-52 for |x| <= 2^24 (floats, as angles of rotary tables are). Farther out the angle
/// itself means less and less: results stay between -1 and 1 but are not accurate past 2^40. NaN and infinity give NaN.
DFLASH_HD inline sine_cosine sincos(double x) {
    using c = math64_constants;
    if (x - x != 0.0) {
        return {not_a_number64, not_a_number64};
    }
    // x = n pi/2 + r. For float angles the first step is exact (x and n * half_pi_1 agree in all leading bits), so
    // two parts of pi/2 leave r with full relative accuracy however close x lies to a multiple of pi/2. One pass is
    // enough below 2^40; the loop only keeps larger angles in range.
    int quadrant = 0;
    double r = x;
    do {
        const double n = rint(r * c::two_over_pi);
        const double turn = fma(-4.0, rint(n * 0.25), n);  // exact: -2 .. 2
        quadrant += static_cast<int>(turn);
        r = fma(n, -c::half_pi_1, r);
        r = fma(n, -c::half_pi_2, r);
        r = fma(n, -c::half_pi_3, r);
    } while (r > 1.0 || r < -1.0);

    const double square = r * r;
    const double s = detail::horner<math64_constants::sin>(square);
    const double t = detail::horner<math64_constants::cos>(square);
    const double sine = fma(s * square, r, r);
    const double cosine = fma(square, fma(t, square, -0.5), 1.0);
    switch (static_cast<unsigned>(quadrant) & 3U) {
        case 0U: return {sine, cosine};
        case 1U: return {cosine, -sine};
        case 2U: return {-sine, -cosine};
        default: return {-cosine, sine};
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
