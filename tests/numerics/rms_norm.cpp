#include <doctest/doctest.h>
#include <dflash/numerics/rms_norm.hpp>

#include "numerics/support.hpp"

using dflash::numerics::rms_norm;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

TEST_CASE("rms_norm by hand") {
    // mean of squares (9 + 16 + 0 + 0) / 4 = 6.25, so r = 0.4.
    const std::vector<float> x = {3.0F, -4.0F, 0.0F, -0.0F};
    const std::vector<float> w = {1.0F, 2.0F, 5.0F, 1.0F};
    std::vector<float> y(4);
    rms_norm(x.data(), w.data(), 0.0F, 4, y.data());
    const std::vector<float> wanted = {3.0F * 0.4F, (-4.0F * 0.4F) * 2.0F, 0.0F, -0.0F};
    CHECK(same(y, wanted));
}

TEST_CASE("rms_norm scales by the weight last") {
    // (x * r) * w and x * (r * w) differ; the first one is meant.
    const std::vector<float> x = noise(64, 1);
    const std::vector<float> w = noise(64, 2);
    std::vector<float> y(64);
    rms_norm(x.data(), w.data(), 1e-6F, 64, y.data());
    const float r = 1.0F / std::sqrt(dflash::numerics::sum_squares_lanes(x.data(), 64) / 64.0F + 1e-6F);
    bool differs = false;
    for (std::size_t i = 0; i < 64; ++i) {
        REQUIRE(same(y[i], (x[i] * r) * w[i]));
        const volatile float other = r * w[i];
        differs = differs || !same(y[i], x[i] * other);
    }
    CHECK(differs);
}

TEST_CASE("rms_norm divides the sum of squares by n, bit for bit") {
    // n that are no powers of two: there ss / n and ss * (1 / n) differ.
    for (const index n : {100, 300}) {
        bool differs = false;
        for (std::uint32_t seed = 0; seed < 20; ++seed) {
            const std::vector<float> x = noise(n, 2 * seed, 3.0F);
            const std::vector<float> w = noise(n, 2 * seed + 1);
            const float squares = dflash::numerics::sum_squares_lanes(x.data(), n);
            const auto r_of = [](float mean) { return 1.0F / std::sqrt(mean + 1e-6F); };
            const volatile float mean = squares / static_cast<float>(n);
            const volatile float reciprocal = 1.0F / static_cast<float>(n);
            const volatile float other_mean = squares * reciprocal;
            const float r = r_of(mean);
            differs = differs || !same(r, r_of(other_mean));
            std::vector<float> y(x.size());
            rms_norm(x.data(), w.data(), 1e-6F, n, y.data());
            for (std::size_t i = 0; i < x.size(); ++i) {
                REQUIRE(same(y[i], (x[i] * r) * w[i]));
            }
        }
        CHECK(differs);
    }
}

TEST_CASE("rms_norm agrees with f64 and may work in place") {
    for (const index n : {1, 16, 31, 128, 255, 256, 257, 513, 2560}) {
        std::vector<float> x = noise(n, 7, 5.0F);
        const std::vector<float> w = noise(n, 8);
        double squares = 0.0;
        for (const float v : x) {
            squares += static_cast<double>(v) * static_cast<double>(v);
        }
        const double r = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        std::vector<float> y(x.size());
        rms_norm(x.data(), w.data(), 1e-5F, n, y.data());
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double wanted = static_cast<double>(x[i]) * r * static_cast<double>(w[i]);
            REQUIRE(std::fabs(static_cast<double>(y[i]) - wanted) <= 5e-7 * std::fabs(wanted));
        }
        rms_norm(x.data(), w.data(), 1e-5F, n, x.data());
        CHECK_MESSAGE(same(x, y), "in place, n = ", n);
    }
}

TEST_CASE("rms_norm of zeros is zero, and NaN shows") {
    std::vector<float> x(40, 0.0F);
    const std::vector<float> w(40, 1.0F);
    std::vector<float> y(40, 7.0F);
    rms_norm(x.data(), w.data(), 1e-6F, 40, y.data());
    CHECK(same(y, x));
    x[33] = dflash::numerics::not_a_number;
    rms_norm(x.data(), w.data(), 1e-6F, 40, y.data());
    CHECK(std::isnan(y[0]));
}
