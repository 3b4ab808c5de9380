#include <doctest/doctest.h>
#include <dflash/numerics/softmax.hpp>

#include "numerics/support.hpp"

using dflash::numerics::infinity;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

namespace numerics = dflash::numerics;

TEST_CASE("log-probability of the one raised logit of eleven") {
    std::vector<float> row(11, 0.0F);
    row[7] = 1.0F;
    const double wanted = 1.0 - std::log(std::exp(1.0) + 10.0);  // -1.54304
    CHECK(std::fabs(static_cast<double>(numerics::log_probability(row.data(), 11, 7)) - wanted) < 3e-7);
    CHECK(std::fabs(static_cast<double>(numerics::log_sum_exp(row.data(), 11)) - (1.0 - wanted)) < 3e-7);
}

TEST_CASE("the sum runs in lanes over exponentials below the maximum") {
    for (const index n : {1, 31, 33, 256, 257, 1000}) {
        const std::vector<float> x = noise(n, 1, 10.0F);
        const float max = *std::max_element(x.begin(), x.end());
        std::vector<float> p(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            p[i] = numerics::exp(x[i] - max);
        }
        const float l = numerics::sum_lanes(p.data(), n);
        const numerics::softmax_norm norm = numerics::normalise(x.data(), n);
        CHECK(same(norm.max, max));
        CHECK(same(norm.sum, l));
        CHECK(same(numerics::log_probability(x.data(), n, n / 2),
                   (x[static_cast<std::size_t>(n / 2)] - max) - numerics::log(l)));
        std::vector<float> y(x.size());
        numerics::softmax(x.data(), n, y.data());
        double total = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            REQUIRE(same(y[i], p[i] / l));
            total += static_cast<double>(y[i]);
        }
        CHECK(std::fabs(total - 1.0) < 1e-6);
        std::vector<float> in_place = x;
        numerics::softmax(in_place.data(), n, in_place.data());
        CHECK(same(in_place, y));
    }
}

TEST_CASE("filtered logits have probability zero and change nothing else") {
    const std::vector<float> row = {1.0F, -infinity, 2.0F, -infinity};
    std::vector<float> p(4);
    numerics::softmax(row.data(), 4, p.data());
    CHECK(same(p[1], 0.0F));
    CHECK(same(p[3], 0.0F));
    CHECK(std::fabs(p[0] + p[2] - 1.0F) < 1e-6F);
    CHECK(same(numerics::log_probability(row.data(), 4, 1), -infinity));
    const std::vector<float> lone = {-infinity, 5.0F};
    CHECK(same(numerics::log_probability(lone.data(), 2, 1), 0.0F));
}

TEST_CASE("huge logits do not overflow, NaN shows") {
    const std::vector<float> row = {3e38F, 3e38F};
    std::vector<float> p(2);
    numerics::softmax(row.data(), 2, p.data());
    CHECK(p[0] == 0.5F);
    CHECK(p[1] == 0.5F);
    for (const std::size_t at : {0U, 1U, 2U}) {
        std::vector<float> bad = {1.0F, 2.0F, 3.0F};
        bad[at] = numerics::not_a_number;
        CHECK(std::isnan(numerics::log_sum_exp(bad.data(), 3)));
    }
}
