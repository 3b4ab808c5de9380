// Standard Gumbel noise from one random word. Where the word comes from is the sampler's business.
#pragma once

#include <dflash/numerics/log.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// u = (word + 1/2) * 2^-32 rounded to f32, E = -log1p(-u), g = -log(E). Always finite, between -2.82 and 22.88.
///
/// All 32 bits count where u is small, which is where the largest g come from: 24-bit uniforms would tie for first
/// place too often in a large vocabulary. The 128 largest words, for which u would round to 1 and g to -inf, take the
/// largest float below 1 instead, so that a lone candidate can never lose against a filtered one.
[[nodiscard]] DFLASH_HD inline float gumbel(std::uint32_t word) {
    // (2 word + 1) * 2^-33: the conversion rounds once, to nearest even, and the product is exact.
    const float rounded = static_cast<float>(2 * static_cast<std::uint64_t>(word) + 1) * 0x1p-33F;
    const float u = rounded < 1.0F ? rounded : 0x1.fffffep-1F;
    return -log(-log1p(-u));
}

}  // namespace numerics

DFLASH_END_NAMESPACE
