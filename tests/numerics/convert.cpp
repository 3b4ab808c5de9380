#include <doctest/doctest.h>
#include <dflash/numerics/convert.hpp>

#include "numerics/support.hpp"

using dflash::bf16;
using dflash::f16;
using dflash::numerics::from_bits;
using dflash::numerics::to_bf16;
using dflash::numerics::to_bits;
using dflash::numerics::to_f16;
using dflash::numerics::to_float;

namespace {

bool is_nan(bf16 x) {
    return (x.bits & 0x7FFFU) > 0x7F80U;
}

bool is_nan(f16 x) {
    return (x.bits & 0x7FFFU) > 0x7C00U;
}

/// What an f16 pattern means, from its three fields.
double f16_value(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000U) != 0 ? -size : size;
}

}  // namespace

TEST_CASE("bf16 rounds to nearest even and keeps NaN") {
    const auto rounds = [](std::uint32_t from, std::uint16_t to) { return to_bf16(from_bits(from)).bits == to; };
    CHECK(rounds(0x3E89CCD5U, 0x3E8AU));
    CHECK(rounds(0x3F808000U, 0x3F80U));  // a tie, down to even
    CHECK(rounds(0x3F818000U, 0x3F82U));  // a tie, up to even
    CHECK(rounds(0x3F808001U, 0x3F81U));
    CHECK(rounds(0x7F7FFFFFU, 0x7F80U));  // past the largest: infinity
    CHECK(rounds(0xFF7FFFFFU, 0xFF80U));
    CHECK(rounds(0x00018000U, 0x0002U));  // subnormals round too
    CHECK(rounds(0x80000000U, 0x8000U));
    CHECK(rounds(0x7F800000U, 0x7F80U));
    CHECK(is_nan(to_bf16(from_bits(0x7F800001U))));
    CHECK(is_nan(to_bf16(from_bits(0xFF80FFFFU))));
    CHECK(is_nan(to_bf16(from_bits(0x7FFFFFFFU))));
}

TEST_CASE("every bf16 survives the round trip") {
    for (std::uint32_t i = 0; i <= 0xFFFFU; ++i) {
        const bf16 x{static_cast<std::uint16_t>(i)};
        const bf16 back = to_bf16(to_float(x));
        const bool kept = is_nan(x) ? is_nan(back) : back == x;
        REQUIRE_MESSAGE(kept, "bf16 pattern ", i);
    }
}

TEST_CASE("bf16 neighbours: everything between two values goes to the nearer one") {
    for (std::uint32_t i = 0; i < 0x7F80U; ++i) {
        const std::uint32_t low = i << 16;
        const std::uint32_t even = (i & 1U) == 0 ? i : i + 1;
        const bool right = to_bf16(from_bits(low + 0x7FFFU)).bits == i &&
                           to_bf16(from_bits(low + 0x8000U)).bits == even &&
                           to_bf16(from_bits(low + 0x8001U)).bits == i + 1;
        REQUIRE_MESSAGE(right, "above bf16 pattern ", i);
    }
}

TEST_CASE("every f16 survives the round trip and means what its fields say") {
    for (std::uint32_t i = 0; i <= 0xFFFFU; ++i) {
        const f16 x{static_cast<std::uint16_t>(i)};
        const float wide = to_float(x);
        const f16 back = to_f16(wide);
        const bool kept = is_nan(x) ? is_nan(back) && wide != wide : back == x;
        REQUIRE_MESSAGE(kept, "f16 pattern ", i);
        if ((i & 0x7C00U) != 0x7C00U) {
            REQUIRE_MESSAGE(static_cast<double>(wide) == f16_value(x.bits), "f16 pattern ", i);
        }
    }
    CHECK(to_float(f16{0x7C00U}) == dflash::numerics::infinity);
    CHECK(to_float(f16{0xFC00U}) == -dflash::numerics::infinity);
    CHECK(to_bits(to_float(f16{0x8000U})) == 0x80000000U);
}

TEST_CASE("f16 neighbours: ties go to even, subnormals and the edge of infinity included") {
    for (std::uint16_t i = 0; i < 0x7BFFU; ++i) {
        const float low = to_float(f16{i});
        const float high = to_float(f16{static_cast<std::uint16_t>(i + 1)});
        const float middle = (low + high) / 2;  // exact: the widths leave room
        const std::uint32_t even = (i & 1U) == 0 ? i : i + 1U;
        const bool right = to_f16(middle).bits == even && to_f16(std::nextafter(middle, 0.0F)).bits == i &&
                           to_f16(std::nextafter(middle, high)).bits == i + 1U &&
                           to_f16(-middle).bits == (even | 0x8000U);
        REQUIRE_MESSAGE(right, "above f16 pattern ", i);
    }
    CHECK(to_f16(65519.996F).bits == 0x7BFFU);
    CHECK(to_f16(65520.0F).bits == 0x7C00U);
    CHECK(to_f16(-3e38F).bits == 0xFC00U);
    CHECK(to_f16(0x1p-25F).bits == 0x0000U);  // a tie between 0 and the smallest
    CHECK(to_f16(0x1.000002p-25F).bits == 0x0001U);
    CHECK(to_f16(-0x1p-149F).bits == 0x8000U);
    CHECK(is_nan(to_f16(from_bits(0x7F800001U))));
}
