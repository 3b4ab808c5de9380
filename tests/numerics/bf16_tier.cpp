// The bf16 tier: what an operand is, and that the chain over operands is the one of linear.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/linear.hpp>

#include "numerics/support.hpp"

using dflash::bf16;
using dflash::index;
using dflash::numerics::bf16_operand;
using dflash::numerics::canonical_bits;
using dflash::numerics::from_bits;
using dflash::numerics::to_bf16;
using dflash::numerics::to_float;

TEST_CASE("bf16 tier: a weight below 2^-40 is a zero of its sign, anything else is itself") {
    for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
        const bf16 x{static_cast<std::uint16_t>(bits)};
        const float value = to_float(x);
        const bf16 expected = std::abs(value) < 0x1p-40F ? to_bf16(std::copysign(0.0F, value)) : x;
        REQUIRE(bf16_operand(x).bits == expected.bits);
    }
    CHECK(to_float(dflash::numerics::bf16_smallest) == 0x1p-40F);
}

TEST_CASE("bf16 tier: an activation is rounded first and then compared with 2^-40") {
    const auto operand = [](float x) { return to_float(bf16_operand(x)); };
    CHECK(operand(1.00390625F) == 1.0F);       // 1 + 2^-8: a tie, down to even
    CHECK(operand(1.01171875F) == 1.015625F);  // 1 + 3 * 2^-8: a tie, up to even
    CHECK(operand(0x1.FFp-41F) == 0x1p-40F);   // a tie that rounds up to the bound, and stays
    CHECK(operand(0x1.FEFFFEp-41F) == 0.0F);   // rounds to the largest below it
    CHECK(operand(-0x1p-40F) == -0x1p-40F);
    CHECK(std::signbit(operand(-0x1p-41F)));  // a zero keeps its sign, which no sum that starts at +0 can show
    CHECK(operand(0x1p-149F) == 0.0F);
    CHECK(operand(0x1.FFp127F) == HUGE_VALF);  // past the largest
    CHECK(operand(0x1.FEFFFEp127F) == 0x1.FEp127F);
    CHECK(std::isnan(operand(from_bits(0x7F800001U))));
}

TEST_CASE("bf16 tier: linear over operands is linear, chunks and bias included") {
    for (const index k : {0, 1, 127, 128, 129, 256, 257, 300}) {
        constexpr index n = 3;
        std::vector<bf16> w(static_cast<std::size_t>(n * k));
        std::vector<float> wide(w.size());
        std::vector<float> x(static_cast<std::size_t>(k));
        std::vector<float> rounded(x.size());
        std::uint32_t state = 7;
        const auto draw = [&] {
            state = state * 1664525U + 1013904223U;
            return std::ldexp(static_cast<float>(static_cast<std::int32_t>(state)),
                              -31 - static_cast<int>(state % 45U));
        };
        for (std::size_t i = 0; i < w.size(); ++i) {
            w[i] = to_bf16(draw());
            wide[i] = to_float(bf16_operand(w[i]));
        }
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = draw();
            rounded[i] = to_float(bf16_operand(x[i]));
        }
        const float bias[n] = {1.0F, 0x1p-60F, -3.0F};
        for (const float* added : {static_cast<const float*>(nullptr), &bias[0]}) {
            float found[n];
            float expected[n];
            dflash::numerics::linear_bf16(w.data(), added, x.data(), k, n, found);
            dflash::numerics::linear(wide.data(), added, rounded.data(), k, n, expected);
            for (index o = 0; o < n; ++o) {
                CHECK(canonical_bits(found[o]) == canonical_bits(expected[o]));
            }
        }
    }
}

TEST_CASE("bf16 tier: no partial sum is subnormal or rounds below 2^-94") {
    // The smallest operands: products of 2^-80, cancelling down to the last bit.
    const std::vector<bf16> w = {bf16{0x2B80U}, bf16{0xAB80U}, bf16{0x2B81U}, bf16{0xAB81U}};
    const std::vector<float> x = {0x1p-40F, 0x1.02p-40F, 0x1p-40F, 0x1.02p-40F};
    float y = 0.0F;
    dflash::numerics::linear_bf16(w.data(), nullptr, x.data(), 4, 1, &y);
    CHECK(y == std::ldexp(1.0F - 1.0078125F + 1.0078125F - 1.0078125F * 1.0078125F, -80));
    CHECK(std::abs(y) >= 0x1p-94F);
}
