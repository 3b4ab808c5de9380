#include <doctest/doctest.h>
#include <dflash/numerics/activation.hpp>

#include "numerics/literal.hpp"
#include "numerics/support.hpp"

using dflash::numerics::silu;
using dflash::numerics::silu_mul;
using numerics_test::noise;
using numerics_test::same;

TEST_CASE("silu") {
    CHECK(same(silu(0.0F), 0.0F));
    CHECK(same(silu(-0.0F), -0.0F));
    CHECK(same(silu(100.0F), 100.0F));
    CHECK(same(silu(-100.0F), -0.0F));  // -100 / inf
    CHECK(same(silu(dflash::numerics::infinity), dflash::numerics::infinity));
    CHECK(std::isnan(silu(dflash::numerics::not_a_number)));
    for (const float x : noise(5000, 1, 20.0F)) {
        const double wanted = static_cast<double>(x) / (1.0 + std::exp(-static_cast<double>(x)));
        REQUIRE(numerics_test::ulps(silu(x), wanted) <= 2.6);
    }
}

TEST_CASE("silu_mul rounds silu first") {
    const std::vector<float> gate = noise(500, 2, 8.0F);
    const std::vector<float> up = noise(500, 3, 8.0F);
    for (std::size_t i = 0; i < gate.size(); ++i) {
        const volatile float s = silu(gate[i]);
        REQUIRE(same(silu_mul(gate[i], up[i]), s * up[i]));
    }
}

TEST_CASE("add may work in place") {
    const std::vector<float> h = noise(37, 4);
    std::vector<float> o = noise(37, 5);
    std::vector<float> y(37);
    dflash::numerics::add(h.data(), o.data(), 37, y.data());
    for (std::size_t i = 0; i < h.size(); ++i) {
        REQUIRE(same(y[i], h[i] + o[i]));
    }
    dflash::numerics::add(h.data(), o.data(), 37, o.data());
    CHECK(same(o, y));
}

TEST_CASE("silu takes the steps of its definition") {
    const auto r = numerics_test::literal::differences([](float x) { return silu(x); },
                                                       [](float x) { return numerics_test::literal::silu(x); });
    CHECK_MESSAGE(r.count == 0, "the last at ", r.last_at);
}
