#include <doctest/doctest.h>
#include <dflash/numerics/sum.hpp>

#include "numerics/support.hpp"

using dflash::numerics::sum_lanes;
using dflash::numerics::sum_squares_lanes;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

namespace {

/// The definition once more, written as a recursion over lanes that are lists: slow, and unlike the header's loops.
float lane_sum(const std::vector<float>& chunk, std::size_t lane, bool squares) {
    float sum = 0.0F;
    for (std::size_t i = lane; i < chunk.size(); i += 32) {
        sum = squares ? std::fma(chunk[i], chunk[i], sum) : sum + chunk[i];
    }
    return sum;
}

float folded(const std::vector<float>& chunk, std::size_t lane, std::size_t width, bool squares) {
    if (width == 32) {
        return lane_sum(chunk, lane, squares);
    }
    const float left = folded(chunk, lane, width * 2, squares);
    return left + folded(chunk, lane + width, width * 2, squares);
}

float literal(const std::vector<float>& x, bool squares) {
    float total = 0.0F;
    for (std::size_t start = 0; start < x.size(); start += 256) {
        const std::size_t end = (std::min)(x.size(), start + 256);
        const std::vector<float> chunk(x.begin() + static_cast<std::ptrdiff_t>(start),
                                       x.begin() + static_cast<std::ptrdiff_t>(end));
        total = total + folded(chunk, 0, 1, squares);
    }
    return total;
}

}  // namespace

TEST_CASE("sum_lanes keeps 32 lanes and folds them in halves") {
    // 2^24 sits in lane 0 and swallows single ones; by hand, the fold brings lane 0 the sums of lanes 16, 8 + 24, ...
    std::vector<float> row(600, 1.0F);
    row[0] = 0x1p24F;
    const auto above = [&](index n) { return sum_lanes(row.data(), n) - 0x1p24F; };
    CHECK(above(1) == 0.0F);
    CHECK(above(17) == 14.0F);    // lanes 16 and 8 bring a one each, lost; then 2 + 4 + 8
    CHECK(above(32) == 30.0F);    // 1 (lost) + 2 + 4 + 8 + 16
    CHECK(above(33) == 30.0F);    // element 32 goes to lane 0 and is lost
    CHECK(above(64) == 62.0F);    // 2 + 4 + 8 + 16 + 32
    CHECK(above(256) == 248.0F);  // 31 lanes of 8
    CHECK(above(257) == 248.0F);  // a second chunk of 1: a tie
    CHECK(above(258) == 250.0F);
    CHECK(above(288) == 280.0F);  // a second chunk of 32
}

TEST_CASE("sums equal the definition at every chunk edge") {
    for (const index n : {0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 512, 513, 600, 1024}) {
        const std::vector<float> x = noise(n, static_cast<std::uint32_t>(n), 3.0F);
        CHECK_MESSAGE(same(sum_lanes(x.data(), n), literal(x, false)), "sum, n = ", n);
        CHECK_MESSAGE(same(sum_squares_lanes(x.data(), n), literal(x, true)), "squares, n = ", n);
    }
}

TEST_CASE("sums do not depend on alignment") {
    const std::vector<float> x = noise(500, 9);
    for (std::size_t shift = 0; shift < 9; ++shift) {
        std::vector<float> moved(x.size() + shift);
        std::copy(x.begin(), x.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
        CHECK(same(sum_lanes(moved.data() + shift, 500), sum_lanes(x.data(), 500)));
    }
}

TEST_CASE("sum_squares_lanes fuses every square") {
    // The first square is exact; only a fused second one keeps the 2^-24 of (1 + 2^-12)^2 next to 2^-11 + 1.
    std::vector<float> x(33, 0.0F);
    x[0] = 0x1p-12F;
    x[32] = 0x1.001p+0F;  // the same lane
    CHECK(sum_squares_lanes(x.data(), 33) == std::fma(0x1.001p+0F, 0x1.001p+0F, 0x1p-24F));
    CHECK(std::fma(0x1.001p+0F, 0x1.001p+0F, 0x1p-24F) == 0x1.002002p+0F);
}
