// The hyperbolic tangent in f32, and the soft-cap of logits made of it.
//
// Odd, monotone, within 1.21 ulp. (Measured over every float by tests/numerics/exhaustive.cpp, program
// numerics_exhaustive.)
#pragma once

#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/polynomial.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// The constants of tanh. Frozen.
///
/// t is fpminimax(tanh(x), degrees 3, 5, ..., 11 in binary32, [2^-12, 0.626], relative, constrained part x), a Sollya
/// command; approximation error 2^-27.7.
struct tanh_constants {
    static constexpr float joint = 0.625F;      ///< below: polynomial; from here: exponential
    static constexpr float saturation = 10.0F;  ///< from here: +-1 (reached earlier by rounding)
    /// tanh(x) = x + x^3 (t[0] + t[1] x^2 + ... + t[4] x^8)
    static constexpr float t[5] = {-0x1.555532p-2F, 0x1.1106fcp-3F, -0x1.b836e8p-5F, 0x1.52034ep-6F, -0x1.75438ap-8F};
};

/// tanh x. NaN gives NaN; tanh(+-0) = +-0; +-1 from |x| = 9.02 on.
DFLASH_HD inline float tanh(float x) {
    using c = tanh_constants;
    const float size = from_bits(to_bits(x) & 0x7FFFFFFFU);
    if (size != size) {
        return x;
    }
    if (size >= c::saturation) {
        return copy_sign(1.0F, x);
    }
    if (size < c::joint) {
        const float square = x * x;
        const float t = detail::horner<tanh_constants::t>(square);
        return copy_sign(fma(square * t, size, size), x);
    }
    // 1 - 2 / (e^(2x) + 1), with e^(2x) + 1 = 2^n p + (2^n + 1) rounded once.
    const detail::exp_parts parts = detail::split_exp(2.0F * size);
    const float power = from_bits(static_cast<std::uint32_t>(static_cast<std::int32_t>(parts.n) + 127) << 23);
    const float y = 1.0F - divide(2.0F, fma(power, parts.p, power + 1.0F));
    return copy_sign(y, x);
}

/// cap * tanh(x / cap), the soft-cap of logits. cap > 0.
DFLASH_HD inline float soft_cap(float x, float cap) {
    return cap * tanh(divide(x, cap));
}

}  // namespace numerics

DFLASH_END_NAMESPACE
