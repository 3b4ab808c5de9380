#include <doctest/doctest.h>
#include <dflash/numerics/dot.hpp>

#include "numerics/support.hpp"

using dflash::bf16;
using dflash::f16;
using dflash::numerics::dot_chain;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

namespace {

const std::vector<float>& ones() {
    static const std::vector<float> row(1000, 1.0F);
    return row;
}

}  // namespace

TEST_CASE("dot_chain adds from left to right within a chunk") {
    const std::vector<float> cancel = {1e8F, 1.0F, -1e8F, 1.0F};
    CHECK(dot_chain(cancel.data(), ones().data(), 4) == 1.0F);  // two lanes would give 2
    const std::vector<float> late = {1.0F, 1e8F, -1e8F, 1.0F};
    CHECK(dot_chain(late.data(), ones().data(), 4) == 1.0F);
    const std::vector<float> early = {1e8F, -1e8F, 1.0F, 1.0F};
    CHECK(dot_chain(early.data(), ones().data(), 4) == 2.0F);
}

TEST_CASE("dot_chain fuses every product") {
    // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24, which a rounded product would lose.
    const std::vector<float> a = {-0x1.002p+0F, 0x1.001p+0F};
    const std::vector<float> b = {1.0F, 0x1.001p+0F};
    CHECK(dot_chain(a.data(), b.data(), 2) == 0x1p-24F);
}

TEST_CASE("dot_chain starts a new chain every 128 elements") {
    // 2^24 swallows the ones that follow in its own chunk; the other chunks' ones are counted and added whole.
    std::vector<float> row = ones();
    row[0] = 0x1p24F;
    const auto above = [&](index n) { return dot_chain(row.data(), ones().data(), n) - 0x1p24F; };
    CHECK(above(1) == 0.0F);
    CHECK(above(127) == 0.0F);
    CHECK(above(128) == 0.0F);
    CHECK(above(129) == 0.0F);  // 2^24 + 1 is a tie
    CHECK(above(130) == 2.0F);
    CHECK(above(255) == 128.0F);  // 127 is a tie between 126 and 128; 128 is even
    CHECK(above(256) == 128.0F);
    CHECK(above(257) == 128.0F);
    CHECK(above(258) == 130.0F);
    CHECK(above(511) == 384.0F);  // 256 + 127, a tie again
    CHECK(above(512) == 384.0F);
    CHECK(above(513) == 384.0F);
    CHECK(above(600) == 472.0F);
}

TEST_CASE("dot_chain of nothing is +0, and -0 becomes +0") {
    CHECK(same(dot_chain(ones().data(), ones().data(), 0), 0.0F));
    const float minus = -0.0F;
    CHECK(same(dot_chain(&minus, ones().data(), 1), 0.0F));
}

TEST_CASE("a chain that underflows to -0 is added to +0") {
    // -2^-200 rounds to -0 although the chain started at +0.
    for (const index n : {1, 5, 129, 256}) {
        std::vector<float> a(static_cast<std::size_t>(n), 0.0F);
        std::vector<float> b(static_cast<std::size_t>(n), 0.0F);
        a.back() = -0x1p-100F;
        b.back() = 0x1p-100F;
        CHECK(same(std::fma(a.back(), b.back(), 0.0F), -0.0F));
        CHECK_MESSAGE(same(dot_chain(a.data(), b.data(), n), 0.0F), "n = ", n);
    }
}

TEST_CASE("dot_chain widens bf16 and f16 exactly") {
    const std::vector<float> x = noise(300, 1);
    std::vector<bf16> b(300);
    std::vector<f16> h(300);
    std::vector<float> b_wide(300);
    std::vector<float> h_wide(300);
    const std::vector<float> w = noise(300, 2);
    for (std::size_t i = 0; i < w.size(); ++i) {
        b[i] = dflash::numerics::to_bf16(w[i]);
        h[i] = dflash::numerics::to_f16(w[i]);
        b_wide[i] = dflash::numerics::to_float(b[i]);
        h_wide[i] = dflash::numerics::to_float(h[i]);
    }
    CHECK(same(dot_chain(b.data(), x.data(), 300), dot_chain(b_wide.data(), x.data(), 300)));
    CHECK(same(dot_chain(x.data(), h.data(), 300), dot_chain(x.data(), h_wide.data(), 300)));
    CHECK_FALSE(same(dot_chain(b.data(), x.data(), 300), dot_chain(w.data(), x.data(), 300)));
}

TEST_CASE("dot_chain is close to the exact sum") {
    for (const index n : {1, 31, 128, 129, 600, 3072}) {
        const std::vector<float> a = noise(n, 3);
        const std::vector<float> b = noise(n, 4);
        double exact = 0.0;
        double size = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            exact += static_cast<double>(a[i]) * static_cast<double>(b[i]);
            size += std::fabs(static_cast<double>(a[i]) * static_cast<double>(b[i]));
        }
        const double error = std::fabs(static_cast<double>(dot_chain(a.data(), b.data(), n)) - exact);
        CHECK_MESSAGE(error <= 1e-6 * size, "n = ", n);
    }
}
