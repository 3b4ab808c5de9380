#include <doctest/doctest.h>
#include <dflash/numerics/argmax.hpp>

#include "numerics/support.hpp"

using dflash::numerics::all_finite;
using dflash::numerics::argmax;
using dflash::numerics::infinity;
using dflash::numerics::not_a_number;
using numerics_test::index;

namespace {

index best(const std::vector<float>& x) {
    return argmax(x.data(), static_cast<index>(x.size()));
}

}  // namespace

TEST_CASE("argmax: the lowest index among equals") {
    CHECK(best({0.0F, 5.0F, 5.0F, 1.0F}) == 1);
    CHECK(best({3.0F}) == 0);
    CHECK(best({-0.0F, 0.0F}) == 0);
    CHECK(best({0.0F, -0.0F}) == 0);
    CHECK(best({-1.0F, -0.0F, 0.0F}) == 1);
    for (const auto& [first, second] : {std::pair<std::size_t, std::size_t>{7, 8}, {15, 16}, {0, 36}, {31, 32}}) {
        std::vector<float> row(37, 1.0F);
        row[first] = 2.0F;
        row[second] = 2.0F;
        CHECK(best(row) == static_cast<index>(first));
        row[second] = std::nextafter(2.0F, 3.0F);
        CHECK(best(row) == static_cast<index>(second));
    }
}

TEST_CASE("argmax: NaN is never chosen over a number, infinities are numbers") {
    CHECK(best({not_a_number, 1.0F, 2.0F}) == 2);
    CHECK(best({1.0F, not_a_number, 0.5F}) == 0);
    CHECK(best({2.0F, 3.0F, not_a_number}) == 1);
    CHECK(best({not_a_number, -infinity}) == 1);
    CHECK(best({-infinity, not_a_number}) == 0);
    CHECK(best({-infinity, -infinity}) == 0);
    CHECK(best({1.0F, infinity, infinity}) == 1);
    CHECK(best({not_a_number, not_a_number}) == 0);
}

TEST_CASE("all_finite") {
    std::vector<float> row(37, 3e38F);
    row[1] = 0x1p-149F;
    row[2] = -0.0F;
    CHECK(all_finite(row.data(), 37));
    CHECK(all_finite(row.data(), 0));
    for (const float bad : {infinity, -infinity, not_a_number, -not_a_number}) {
        for (const std::size_t at : {0U, 15U, 36U}) {
            std::vector<float> spoilt = row;
            spoilt[at] = bad;
            CHECK_FALSE(all_finite(spoilt.data(), 37));
        }
    }
}
