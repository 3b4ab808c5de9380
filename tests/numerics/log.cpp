#include <doctest/doctest.h>
#include <dflash/numerics/log.hpp>

#include "numerics/literal.hpp"
#include "numerics/sweeps.hpp"

using dflash::numerics::infinity;
using dflash::numerics::not_a_number;
using numerics_test::same;

namespace numerics = dflash::numerics;

TEST_CASE("log at its edges") {
    CHECK(same(numerics::log(1.0F), 0.0F));
    CHECK(same(numerics::log(0.0F), -infinity));
    CHECK(same(numerics::log(-0.0F), -infinity));
    CHECK(same(numerics::log(infinity), infinity));
    CHECK(same(numerics::log(-infinity), not_a_number));
    CHECK(same(numerics::log(-1.0F), not_a_number));
    CHECK(same(numerics::log(-0x1p-149F), not_a_number));
    CHECK(same(numerics::log(not_a_number), not_a_number));
    CHECK(same(numerics::log(0x1p-149F), -103.27893F));  // -149 ln 2
    CHECK(same(numerics::log(numerics_test::largest), 88.72284F));
    // Powers of two: the nearest float to k ln 2.
    for (int k = -149; k < 128; ++k) {
        const float wanted = static_cast<float>(k * 0.693147180559945309);
        CHECK_MESSAGE(numerics_test::ulps(numerics::log(std::ldexp(1.0F, k)), static_cast<double>(wanted)) <= 1.0, "2^",
                      k);
    }
}

TEST_CASE("log1p at its edges") {
    CHECK(same(numerics::log1p(0.0F), 0.0F));
    CHECK(same(numerics::log1p(-0.0F), -0.0F));
    CHECK(same(numerics::log1p(-1.0F), -infinity));
    CHECK(same(numerics::log1p(std::nextafter(-1.0F, -2.0F)), not_a_number));
    CHECK(same(numerics::log1p(-infinity), not_a_number));
    CHECK(same(numerics::log1p(infinity), infinity));
    CHECK(same(numerics::log1p(not_a_number), not_a_number));
    for (const float tiny : {0x1p-149F, 0x1p-126F, 0x1p-40F, -0x1p-149F, -0x1p-126F, -0x1p-40F}) {
        CHECK(same(numerics::log1p(tiny), tiny));
    }
    CHECK(same(numerics::log1p(0x1.fffffep-1F - 1.0F), numerics::log(0x1.fffffep-1F)));
    CHECK(same(numerics::log1p(0x1p30F), numerics::log(0x1p30F)));
}

TEST_CASE("log and log1p are accurate and monotone") {
    const auto r = numerics_test::sweep_log(4001);
    CHECK_MESSAGE(r.worst <= 0.85, "at ", r.worst_at);
    CHECK_MESSAGE(r.descents == 0, "the last at ", r.descent_at);
    const auto p = numerics_test::sweep_log1p(4001);
    CHECK_MESSAGE(p.worst <= 0.91, "at ", p.worst_at);
    CHECK_MESSAGE(p.descents == 0, "the last at ", p.descent_at);
}

TEST_CASE("log and log1p take the steps of their definition") {
    const auto r = numerics_test::literal::differences([](float x) { return numerics::log(x); },
                                                       [](float x) { return numerics_test::literal::log(x); });
    CHECK_MESSAGE(r.count == 0, "log, the last at ", r.last_at);
    const auto p = numerics_test::literal::differences([](float x) { return numerics::log1p(x); },
                                                       [](float x) { return numerics_test::literal::log1p(x); });
    CHECK_MESSAGE(p.count == 0, "log1p, the last at ", p.last_at);
}
