#include <doctest/doctest.h>
#include <dflash/numerics/gumbel.hpp>

#include "numerics/literal.hpp"
#include "numerics/support.hpp"

using dflash::numerics::gumbel;

TEST_CASE("gumbel is finite for every word, also where u would round to 1") {
    for (const std::uint32_t word :
         {0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFEFFU, 0xFFFFFF7FU, 0xFFFFFF80U, 0xFFFFFFFFU}) {
        CHECK_MESSAGE(std::isfinite(gumbel(word)), word);
    }
    CHECK(std::fabs(gumbel(0U) - 22.873857F) < 4e-6F);            // -ln(2^-33)
    CHECK(std::fabs(gumbel(0x80000000U) - 0.36651292F) < 1e-6F);  // -ln(ln 2)
    CHECK(std::fabs(gumbel(0xFFFFFFFFU) + 2.8115409F) < 1e-6F);   // -ln(24 ln 2)
}

TEST_CASE("gumbel falls as the word rises, and agrees with f64") {
    float before = gumbel(0);
    for (std::uint64_t word = 0; word < 0x100000000U; word += 65521) {
        const auto w = static_cast<std::uint32_t>(word);
        const float g = gumbel(w);
        REQUIRE(g <= before);
        before = g;
        const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
        if (u < 0.999) {  // nearer to 1 the rounding of u to f32 itself is what counts
            const double wanted = -std::log(-std::log1p(-u));
            REQUIRE(std::fabs(static_cast<double>(g) - wanted) <
                    5e-7 * (std::max)(1.0, std::fabs(wanted)) + 2e-5 * u * u);
        }
    }
}

TEST_CASE("the largest draws do not tie") {
    for (std::uint32_t word = 0; word < 5000; ++word) {
        const float here = gumbel(word * 7);
        REQUIRE_MESSAGE(here > gumbel(word * 7 + 7), word);
    }
}

TEST_CASE("gumbel has the mean and variance of the distribution") {
    double sum = 0.0;
    double squares = 0.0;
    const int n = 65537;
    for (int i = 0; i < n; ++i) {
        const auto g = static_cast<double>(gumbel(static_cast<std::uint32_t>(i) * 65535U));
        sum += g;
        squares += g * g;
    }
    const double mean = sum / n;
    CHECK(std::fabs(mean - 0.57721566) < 2e-3);
    CHECK(std::fabs(squares / n - mean * mean - 1.64493407) < 1e-2);
}

TEST_CASE("gumbel takes the steps of its definition") {
    const auto look = [](std::uint32_t word) {
        REQUIRE_MESSAGE(numerics_test::same(gumbel(word), numerics_test::literal::gumbel(word)), word);
    };
    for (std::uint64_t word = 0; word < 0x100000000U; word += 9973) {
        look(static_cast<std::uint32_t>(word));
    }
    for (std::uint32_t near = 0; near < 400; ++near) {  // both ends, and the words whose u is rounded to 1
        look(near);
        look(0xFFFFFFFFU - near);
    }
}
