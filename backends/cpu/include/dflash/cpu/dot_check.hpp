// A start-up check of a machine's bf16 dot product: does it compute the chain that the arithmetic prescribes?
//
// Processors document their instruction loosely, and may differ in what they round and in which half they take first.
#pragma once

#include <array>
#include <cstdint>

#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/fp_environment.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

/// Sixteen lanes of one dot instruction: acc += a . b over words of two bf16. Sixteen elements each.
using dot_function = void (*)(const std::uint32_t* a, const std::uint32_t* b, float* acc);

/// fma(low of a, low of b, fma(high of a, high of b, acc)).
inline float dot_chain_step(std::uint32_t a, std::uint32_t b, float acc) noexcept {
    const auto high = [](std::uint32_t word) { return numerics::from_bits(word & 0xFFFF0000U); };
    const auto low = [](std::uint32_t word) { return numerics::from_bits(word << 16); };
    return numerics::fma(low(a), low(b), numerics::fma(high(a), high(b), acc));
}

/// Numbers that do not depend on anything outside.
class dot_check_source {
public:
    std::uint32_t bits() noexcept {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::uint32_t>(state_ >> 32);
    }
    /// An operand of the tier; the kind says from which range.
    std::uint32_t operand(std::uint32_t kind) noexcept {
        constexpr std::array<std::uint16_t, 12> edges = {0x0000, 0x2B80, 0x2B81, 0x2BFF, 0x3F7F, 0x3F80,
                                                         0x3F81, 0x5F80, 0x7F00, 0x7F7F, 0x7F80, 0x7FC0};
        const std::uint32_t word = bits();
        const std::uint32_t sign = word & 0x8000U;
        const std::uint32_t fraction = (word >> 16) & 0x7FU;
        const std::uint32_t choice = (word >> 23) & 0xFFU;
        switch (kind) {
            case 0:
                return sign | ((123U + choice % 8U) << 7U) | fraction;  // products that overlap: every rounding shows
            case 1: return sign | ((87U + choice % 40U) << 7U) | fraction;   // small ones, down to 2^-40
            case 2: return sign | ((87U + choice % 168U) << 7U) | fraction;  // all finite ones
            default: return sign | edges[choice % edges.size()];
        }
    }
    std::uint32_t word(std::uint32_t kind) noexcept {
        const std::uint32_t high = operand(kind);
        return high << 16U | operand(kind);
    }

private:
    std::uint64_t state_ = 1;
};

/// Whether the function computes dot_chain_step, on many chains of operands of the tier. Fractions of a millisecond.
inline bool dot_is_chain(dot_function dot) noexcept {
    constexpr index chains = 256;
    constexpr index steps = 8;
    const numerics::fp_environment environment;
    dot_check_source source;
    for (index c = 0; c < chains; ++c) {
        alignas(64) std::array<float, 16> found{};
        std::array<float, 16> right{};
        for (index step = 0; step < steps; ++step) {
            alignas(64) std::array<std::uint32_t, 16> a{};
            alignas(64) std::array<std::uint32_t, 16> b{};
            const auto kind = static_cast<std::uint32_t>(c % 4);
            for (std::size_t lane = 0; lane < 16; ++lane) {
                a[lane] = source.word(kind);
                b[lane] = source.word(kind);
                right[lane] = dot_chain_step(a[lane], b[lane], right[lane]);
            }
            dot(a.data(), b.data(), found.data());
            for (std::size_t lane = 0; lane < 16; ++lane) {
                if (numerics::canonical_bits(found[lane]) != numerics::canonical_bits(right[lane])) {
                    return false;
                }
            }
        }
    }
    return true;
}

}  // namespace detail

}  // namespace cpu

DFLASH_END_NAMESPACE
