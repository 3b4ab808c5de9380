// The functions of one float once more, as the definition reads: one rounded step after another, each in a variable
// that the compiler has to store, the powers of two through frexp and ldexp. Only the coefficients are the header's;
// those are frozen by digest.
#pragma once

#include <cmath>
#include <cstdint>

#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/log.hpp>

#include "numerics/support.hpp"

namespace numerics_test::literal {

using dflash::numerics::infinity;
using dflash::numerics::not_a_number;

/// A value that was rounded and stored: nothing is fused into it, or reordered across it.
inline float stored(float x) {
    const volatile float y = x;
    return y;
}

/// c[0] + x (c[1] + x (...)), one fma per step, from the last coefficient down.
template <std::size_t N>
float horner(const float (&c)[N], float x) {
    float sum = c[N - 1];
    for (std::size_t i = N - 1; i > 0; --i) {
        sum = stored(std::fma(sum, x, c[i - 1]));
    }
    return sum;
}

inline float exp(float x) {
    if (std::isnan(x)) {
        return x;
    }
    if (x > 0x1.62e42ep+6F) {
        return infinity;
    }
    if (x < -0x1.5d589ep+6F) {
        return 0.0F;
    }
    const float product = stored(x * 0x1.715476p+0F);
    const float n = stored(std::nearbyint(product));
    const float r_1 = stored(std::fma(n, -0x1.62e4p-1F, x));
    const float r = stored(std::fma(n, -0x1.7f7d1cp-20F, r_1));
    const float g = horner(dflash::numerics::exp_constants::g, r);
    const float square = stored(r * r);
    const float p = stored(std::fma(square, g, r));
    const float y = stored(1.0F + p);
    return std::ldexp(y, static_cast<int>(n));  // exact: the result is never subnormal
}

/// x = m * 2^k, exactly, with m between 2/3 and 4/3.
struct parts {
    float m;
    int k;
};

inline parts split(float x) {
    parts out{};
    out.m = std::frexp(x, &out.k);
    if (out.m < 0x1.555556p-1F) {
        out.m = 2.0F * out.m;
        out.k = out.k - 1;
    }
    return out;
}

/// k ln 2 + log(1 + f) + low.
inline float join_log(int exponent, float f, float low) {
    const auto k = static_cast<float>(exponent);
    const float q = horner(dflash::numerics::log_constants::q, f);
    const float square = stored(f * f);
    const float small = stored(std::fma(k, 0x1.7f7d1cp-20F, low));
    const float rest = stored(std::fma(square, q, small));
    const float head = stored(std::fma(k, 0x1.62e4p-1F, f));
    const float back = stored(std::fma(-k, 0x1.62e4p-1F, head));
    const float tail = stored(f - back);
    const float below = stored(tail + rest);
    return stored(head + below);
}

inline float log(float x) {
    if (std::isnan(x) || x < 0.0F) {
        return not_a_number;
    }
    if (x == 0.0F) {
        return -infinity;
    }
    if (std::isinf(x)) {
        return x;
    }
    const parts split_x = split(x);
    return join_log(split_x.k, stored(split_x.m - 1.0F), 0.0F);
}

inline float log1p(float x) {
    if (std::isnan(x) || x < -1.0F) {
        return not_a_number;
    }
    if (x == -1.0F) {
        return -infinity;
    }
    if (std::isinf(x) || x == 0.0F) {
        return x;
    }
    const int k = split(stored(1.0F + x)).k;
    if (k > 30) {
        return join_log(k, stored(std::ldexp(x, -k) - 1.0F), 0.0F);
    }
    const float shrink = std::ldexp(1.0F, -k);
    const float less_one = stored(shrink - 1.0F);
    const float f = stored(std::fma(x, shrink, less_one));
    const float left = stored(less_one - f);
    const float lost = stored(std::fma(x, shrink, left));
    return join_log(k, f, stored(std::fma(-f, lost, lost)));
}

/// The exact (word + 1/2) * 2^-32 in f64, rounded to f32 once.
inline float gumbel(std::uint32_t word) {
    const double exact = (static_cast<double>(word) + 0.5) * 0x1p-32;
    float u = stored(static_cast<float>(exact));
    if (u == 1.0F) {
        u = 0x1.fffffep-1F;
    }
    const float e = stored(-log1p(-u));
    return -log(e);
}

inline float silu(float x) {
    const float e = stored(exp(-x));
    const float below = stored(1.0F + e);
    return stored(x / below);
}

/// Where and how often a function differs from its literal definition.
struct difference {
    long count = 0;
    float last_at = 0.0F;
};

/// Over floats of every size and sign, the special ones, and many between -100 and 100.
template <class Function, class Definition>
difference differences(Function function, Definition definition) {
    difference result;
    const auto look = [&](float x) {
        if (!same(function(x), definition(x))) {
            ++result.count;
            result.last_at = x;
        }
    };
    for (std::uint64_t bits = 0; bits < 0x100000000U; bits += 9973) {
        look(dflash::numerics::from_bits(static_cast<std::uint32_t>(bits)));
    }
    for (const float edge : {0.0F, 0x1p-149F, 0x1p-126F, 0x1.fffffcp-127F, 0x1p-25F, 0x1p-24F, 1.0F, 0x1.555556p-1F,
                             0x1.62e42ep+6F, 0x1.5d589ep+6F, 0x1p30F, 0x1p31F, 0x1.fffffep+127F, infinity}) {
        for (const float x : {edge, std::nextafter(edge, infinity), std::nextafter(edge, -infinity)}) {
            look(x);
            look(-x);
        }
    }
    look(not_a_number);
    for (const float scale : {1.0F, 100.0F}) {
        for (const float x : noise(100000, 31, scale)) {
            look(x);
        }
    }
    return result;
}

}  // namespace numerics_test::literal
