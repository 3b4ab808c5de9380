#include <doctest/doctest.h>
#include <dflash/numerics/tanh.hpp>

#include "numerics/sweeps.hpp"

using dflash::numerics::infinity;
using dflash::numerics::not_a_number;
using numerics_test::same;

namespace numerics = dflash::numerics;

TEST_CASE("tanh at its edges") {
    CHECK(same(numerics::tanh(0.0F), 0.0F));
    CHECK(same(numerics::tanh(-0.0F), -0.0F));
    CHECK(same(numerics::tanh(infinity), 1.0F));
    CHECK(same(numerics::tanh(-infinity), -1.0F));
    CHECK(same(numerics::tanh(not_a_number), not_a_number));
    CHECK(same(numerics::tanh(0x1p-149F), 0x1p-149F));
    CHECK(same(numerics::tanh(-0x1p-149F), -0x1p-149F));
    CHECK(same(numerics::tanh(numerics_test::largest), 1.0F));
    CHECK(same(numerics::tanh(10.0F), 1.0F));
    CHECK(same(numerics::tanh(std::nextafter(10.0F, 0.0F)), 1.0F));
    CHECK(numerics::tanh(8.9F) < 1.0F);
}

TEST_CASE("tanh is odd") {
    for (const float x : numerics_test::noise(2000, 5, 12.0F)) {
        REQUIRE(same(numerics::tanh(-x), -numerics::tanh(x)));
    }
}

TEST_CASE("tanh is accurate and monotone, across the joint of its two forms too") {
    const auto r = numerics_test::sweep_tanh(4001);
    CHECK_MESSAGE(r.worst <= 1.2, "at ", r.worst_at);
    CHECK_MESSAGE(r.descents == 0, "the last at ", r.descent_at);
    const auto joint = numerics_test::sweep([](float x) { return numerics::tanh(x); },
                                            [](double x) { return std::tanh(x); }, 0.6249F, 0.6251F, 1);
    CHECK_MESSAGE(joint.descents == 0, "the last at ", joint.descent_at);
}

TEST_CASE("soft_cap bounds logits and keeps small ones") {
    CHECK(same(numerics::soft_cap(1e30F, 30.0F), 30.0F));
    CHECK(same(numerics::soft_cap(-infinity, 30.0F), -30.0F));
    CHECK(same(numerics::soft_cap(-0.0F, 30.0F), -0.0F));
    CHECK(std::fabs(numerics::soft_cap(15.0F, 30.0F) - 13.863515F) < 4e-6F);  // 30 tanh(1/2)
}
