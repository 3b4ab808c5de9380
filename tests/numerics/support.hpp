// What the numerics tests share: reproducible inputs, bit comparison, and the sweep over floats in ascending order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <dflash/numerics/basic.hpp>

namespace numerics_test {

using dflash::index;

/// A 32-bit integer mixer: the same inputs on every machine.
inline std::uint32_t mix(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x7FEB352DU;
    x ^= x >> 15;
    x *= 0x846CA68BU;
    x ^= x >> 16;
    return x;
}

/// n floats in [-scale, scale), every one a multiple of scale * 2^-31 rounded to f32.
inline std::vector<float> noise(index n, std::uint32_t seed, float scale = 1.0F) {
    std::vector<float> out(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto word = static_cast<std::int32_t>(mix(static_cast<std::uint32_t>(i) + seed * 0x9E3779B9U));
        out[i] = static_cast<float>(word) * 0x1p-31F * scale;
    }
    return out;
}

/// Equal bits, every NaN being the same NaN.
inline bool same(float a, float b) {
    return dflash::numerics::canonical_bits(a) == dflash::numerics::canonical_bits(b);
}

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) { return same(x, y); });
}

/// The float that is number `rank` in ascending order, +0 being number 0 and -0 left out.
inline float float_at(std::int64_t rank) {
    const float size = dflash::numerics::from_bits(static_cast<std::uint32_t>(rank < 0 ? -rank : rank));
    return rank < 0 ? -size : size;
}

/// The rank of a float: float_at(rank_of(x)) == x.
inline std::int64_t rank_of(float x) {
    const auto size = static_cast<std::int64_t>(dflash::numerics::to_bits(x) & 0x7FFFFFFFU);
    return x < 0.0F ? -size : size;
}

/// |got - wanted| in units of the last place of a float near wanted.
inline double ulps(float got, double wanted) {
    if (std::isinf(got) || std::isinf(wanted) || std::isnan(got) || std::isnan(wanted)) {
        const bool equal = static_cast<double>(got) == wanted || (std::isnan(got) && std::isnan(wanted));
        return equal ? 0.0 : std::numeric_limits<double>::infinity();
    }
    int exponent = 0;
    std::frexp(wanted, &exponent);
    return std::fabs(static_cast<double>(got) - wanted) / std::ldexp(1.0, (std::max)(exponent, -125) - 24);
}

struct sweep_result {
    double worst = 0.0;       ///< largest error in ulps
    float worst_at = 0.0F;    ///< where
    long descents = 0;        ///< steps at which a non-decreasing function fell
    float descent_at = 0.0F;  ///< the last of them
    long count = 0;           ///< arguments looked at
};

/// Looks at every stride-th float from `first` to `last`, and at its successor, of a non-decreasing function.
template <class Function, class Truth>
sweep_result sweep(Function function, Truth truth, float first, float last, std::int64_t stride) {
    sweep_result result;
    float before = function(first);
    const auto look = [&](std::int64_t rank) {
        const float x = float_at(rank);
        const float y = function(x);
        if (!(y >= before)) {
            ++result.descents;
            result.descent_at = x;
        }
        before = y;
        ++result.count;
        return y;
    };
    const std::int64_t end = rank_of(last);
    for (std::int64_t rank = rank_of(first); rank <= end; rank += stride) {
        const float y = look(rank);
        const double error = ulps(y, truth(static_cast<double>(float_at(rank))));
        if (error > result.worst) {
            result.worst = error;
            result.worst_at = float_at(rank);
        }
        if (stride > 1 && rank < end) {
            look(rank + 1);
        }
    }
    return result;
}

}  // namespace numerics_test
