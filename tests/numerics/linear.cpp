#include <doctest/doctest.h>
#include <dflash/numerics/linear.hpp>

#include "numerics/support.hpp"

using dflash::numerics::linear;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

TEST_CASE("linear by hand: rows of the weight are outputs, the bias comes last") {
    const std::vector<float> w = {1.0F,  2.0F, 3.0F,   //
                                  -1.0F, 0.5F, 0.0F};  // (2, 3)
    const std::vector<float> x = {1.0F, 10.0F, 100.0F};
    const std::vector<float> bias = {0.25F, -4.0F};
    std::vector<float> y(2);
    linear(w.data(), nullptr, x.data(), 3, 2, y.data());
    CHECK(y[0] == 321.0F);
    CHECK(y[1] == 4.0F);
    linear(w.data(), bias.data(), x.data(), 3, 2, y.data());
    CHECK(y[0] == 321.25F);
    CHECK(same(y[1], 0.0F));
}

TEST_CASE("a bias is added after the chain, not fed into it") {
    const std::vector<float> w = {1e8F, 1.0F, -1e8F, 1.0F};
    const std::vector<float> x(4, 1.0F);
    const float bias = 0.5F;
    float y = 0.0F;
    linear(w.data(), &bias, x.data(), 4, 1, &y);
    CHECK(y == 1.5F);  // a chain that starts at the bias gives 1
}

TEST_CASE("rows that cancel: this order gives 1, where lanes would give more than the rival's 1.5") {
    // From left to right every group of four wipes out what came before it and leaves its last 1.
    for (const index k : {4, 32, 64, 128}) {
        std::vector<float> w(static_cast<std::size_t>(2 * k), 0.0F);
        for (index i = 0; i < k; ++i) {
            const float group[4] = {1e8F, 1.0F, -1e8F, 1.0F};
            w[static_cast<std::size_t>(i)] = group[i % 4];
        }
        w[static_cast<std::size_t>(k)] = 1.5F;
        const std::vector<float> x(static_cast<std::size_t>(k), 1.0F);
        std::vector<float> y(2);
        linear(w.data(), nullptr, x.data(), k, 2, y.data());
        CHECK_MESSAGE(y[0] == 1.0F, "k = ", k);
        CHECK(y[1] == 1.5F);
    }
}

TEST_CASE("linear takes 16-bit weights") {
    const index k = 130;
    const index n = 7;
    const std::vector<float> source = noise(k * n, 3);
    const std::vector<float> x = noise(k, 4);
    std::vector<dflash::bf16> b(source.size());
    std::vector<dflash::f16> h(source.size());
    std::vector<float> bw(source.size());
    std::vector<float> hw(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        b[i] = dflash::numerics::to_bf16(source[i]);
        h[i] = dflash::numerics::to_f16(source[i]);
        bw[i] = dflash::numerics::to_float(b[i]);
        hw[i] = dflash::numerics::to_float(h[i]);
    }
    std::vector<float> from_narrow(7);
    std::vector<float> from_wide(7);
    linear(b.data(), nullptr, x.data(), k, n, from_narrow.data());
    linear(bw.data(), nullptr, x.data(), k, n, from_wide.data());
    CHECK(same(from_narrow, from_wide));
    linear(h.data(), nullptr, x.data(), k, n, from_narrow.data());
    linear(hw.data(), nullptr, x.data(), k, n, from_wide.data());
    CHECK(same(from_narrow, from_wide));
}
