#include <doctest/doctest.h>
#include <dflash/numerics/exp.hpp>

#include "numerics/literal.hpp"
#include "numerics/sweeps.hpp"

using dflash::numerics::exp_constants;
using dflash::numerics::infinity;
using dflash::numerics::not_a_number;
using numerics_test::same;

namespace numerics = dflash::numerics;

TEST_CASE("exp at its edges") {
    CHECK(same(numerics::exp(0.0F), 1.0F));
    CHECK(same(numerics::exp(-0.0F), 1.0F));
    CHECK(same(numerics::exp(infinity), infinity));
    CHECK(same(numerics::exp(-infinity), 0.0F));
    CHECK(same(numerics::exp(not_a_number), not_a_number));
    CHECK(same(numerics::exp(-not_a_number), not_a_number));
    CHECK(same(numerics::exp(0x1p-149F), 1.0F));
    CHECK(same(numerics::exp(-0x1p-149F), 1.0F));
    // The largest argument with a finite result: n is 128 there, which no single factor 2^n could express.
    CHECK(std::isfinite(numerics::exp(exp_constants::high)));
    CHECK(numerics::exp(exp_constants::high) > 0x1.fffep+127F);
    CHECK(same(numerics::exp(std::nextafter(exp_constants::high, infinity)), infinity));
    // The smallest argument whose result is not +0 still has a normal one.
    CHECK(numerics::exp(exp_constants::low) >= 0x1p-126F);
    CHECK(same(numerics::exp(std::nextafter(exp_constants::low, -infinity)), 0.0F));
}

TEST_CASE("exp is accurate and monotone") {
    const auto r = numerics_test::sweep_exp(4001);
    CHECK_MESSAGE(r.worst <= 1.0, "at ", r.worst_at);
    CHECK_MESSAGE(r.descents == 0, "the last at ", r.descent_at);
}

TEST_CASE("exp takes the steps of its definition") {
    const auto r = numerics_test::literal::differences([](float x) { return numerics::exp(x); },
                                                       [](float x) { return numerics_test::literal::exp(x); });
    CHECK_MESSAGE(r.count == 0, "the last at ", r.last_at);
}
