#include <doctest/doctest.h>
#include <dflash/numerics/math64.hpp>

#include "numerics/support.hpp"

using dflash::numerics::infinity64;

namespace numerics = dflash::numerics;

namespace {

double relative(double got, double wanted) {
    return std::fabs(got - wanted) / std::fabs(wanted);
}

}  // namespace

TEST_CASE("exp2") {
    double worst = 0.0;
    for (int i = -60000; i < 60000; ++i) {
        const double x = i / 60.0;
        worst = (std::max)(worst, relative(numerics::exp2(x), std::exp2(x)));
    }
    CHECK(worst < 0x1p-51);
    for (int k = -1022; k < 1024; ++k) {
        REQUIRE(numerics::exp2(k) == std::ldexp(1.0, k));
    }
    CHECK(numerics::exp2(1024.0) == infinity64);
    CHECK(numerics::exp2(-1022.5) == 0.0);
    CHECK(numerics::exp2(infinity64) == infinity64);
    CHECK(numerics::exp2(-infinity64) == 0.0);
    CHECK(std::isnan(numerics::exp2(numerics::not_a_number64)));
}

TEST_CASE("log2") {
    double worst = 0.0;
    for (int i = 1; i < 100000; ++i) {
        const double x = i * 0.0137;
        worst = (std::max)(worst, relative(numerics::log2(x), std::log2(x)));
    }
    CHECK(worst < 0x1p-50);
    for (int k = -1074; k < 1024; ++k) {
        REQUIRE(numerics::log2(std::ldexp(1.0, k)) == k);
    }
    CHECK(numerics::log2(0.0) == -infinity64);
    CHECK(numerics::log2(infinity64) == infinity64);
    CHECK(std::isnan(numerics::log2(-1.0)));
    CHECK(std::isnan(numerics::log2(numerics::not_a_number64)));
}

TEST_CASE("sincos of float angles up to 2^24") {
    double worst = 0.0;
    long missed = 0;
    long count = 0;
    const auto look = [&](float angle) {
        const auto x = static_cast<double>(angle);
        const numerics::sine_cosine got = numerics::sincos(x);
        worst = (std::max)({worst, relative(got.sin, std::sin(x)), relative(got.cos, std::cos(x))});
        missed += static_cast<float>(got.sin) != static_cast<float>(std::sin(x)) ? 1 : 0;
        missed += static_cast<float>(got.cos) != static_cast<float>(std::cos(x)) ? 1 : 0;
        count += 2;
    };
    for (std::int64_t rank = numerics_test::rank_of(0x1p-60F); rank <= numerics_test::rank_of(0x1p24F); rank += 4999) {
        look(numerics_test::float_at(rank));
        look(numerics_test::float_at(-rank));
    }
    // The floats next to multiples of pi/2, where the reduced angle nearly cancels.
    for (int n = 1; n < 200000; ++n) {
        const auto near = static_cast<float>(n * 53 * 1.57079632679489661923);
        look(near);
    }
    CHECK(worst < 0x1p-50);
    CHECK_MESSAGE(missed <= count / 100000, missed, " of ", count, " rounded to another float than libm's");
}

TEST_CASE("sincos at its edges") {
    CHECK(numerics::sincos(0.0).sin == 0.0);
    CHECK(numerics::sincos(0.0).cos == 1.0);
    for (const double huge : {0x1p40, 0x1p53 + 2, 1e18, 1e100, 1e300, 0x1.fffffffffffffp+1023}) {
        const numerics::sine_cosine both = numerics::sincos(-huge);
        CHECK(std::fabs(both.sin) <= 1.0);
        CHECK(std::fabs(both.cos) <= 1.0);
    }
    CHECK(std::isnan(numerics::sincos(infinity64).sin));
    CHECK(std::isnan(numerics::sincos(-infinity64).cos));
    CHECK(std::isnan(numerics::sincos(numerics::not_a_number64).cos));
}
