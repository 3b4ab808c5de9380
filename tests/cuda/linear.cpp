// pack, linear and gather of the exact CUDA backend, against numerics bit for bit, in the simulator.
#include <array>

#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/linear.hpp>

#include "support.hpp"

namespace cuda_tests {

using dflash::dtype;
using dflash::tensor_view;

namespace {

constexpr dtype all_types[] = {dtype::f32, dtype::bf16, dtype::f16};

/// y = x w^T by the scalar specification, biases included.
matrix expected_linear(const matrix& x, const stored& w, const float* bias, index n) {
    const std::vector<float> wide = w.widened();
    matrix y(x.rows(), n);
    for (index r = 0; r < x.rows(); ++r) {
        numerics::linear(wide.data(), bias, x.row(r), x.cols(), n, y.row(r));
    }
    return y;
}

matrix product(const dflash::cuda::exact& ops, const matrix& x, std::span<const tensor_view> parts,
               std::span<const tensor_view> biases = {}) {
    const auto w = ops.pack(parts, biases);
    device_matrix in(ops, x);
    device_matrix out(ops, x.rows(), w.rows(), 3);
    ops.linear(in.view(), w, out.view());
    const matrix y = out.host(ops);
    REQUIRE(y.padding_intact());
    return y;
}

}  // namespace

TEST_CASE("linear equals the scalar specification for odd sizes, every type and every tile of rows") {
    const dflash::cuda::exact ops;
    std::uint64_t seed = 0;
    for (const index k : {1, 3, 4, 8, 9, 127, 128, 129, 255, 257, 600, 2200}) {
        for (const index n : {1, 31, 32, 33, 70}) {
            for (const index rows : {1, 2, 3, 5, 8, 9, 16, 17, 33}) {
                ++seed;
                if (k > 600 && (n > 33 || rows % 8 == 1)) {
                    continue;
                }
                noise random(seed);
                const dtype type = all_types[seed % 3];
                stored w(type, n, k);
                matrix x(rows, k, seed % 2 == 0 ? 5 : 0);
                w.fill(random, static_cast<content>(seed % 4));
                x.fill(random, static_cast<content>(seed / 4 % 4));
                const std::array parts = {w.view()};
                CAPTURE(k);
                CAPTURE(n);
                CAPTURE(rows);
                CAPTURE(name_of(type));
                REQUIRE(differing(product(ops, x, parts), expected_linear(x, w, nullptr, n)) == 0);
            }
        }
    }
}

TEST_CASE("parts of different types are stacked, each with its bias") {
    const dflash::cuda::exact ops;
    const index k = 131;
    noise random(5);
    stored a(dtype::bf16, 33, k);
    stored b(dtype::f32, 7, k);
    stored a_bias(dtype::f16, 1, 33);
    stored b_bias(dtype::f32, 1, 7);
    matrix x(4, k);
    for (stored* s : {&a, &b, &a_bias, &b_bias}) {
        s->fill(random, content::plain);
    }
    x.fill(random, content::plain);
    const std::array parts = {a.view(), b.view()};
    const std::array biases = {a_bias.view(), b_bias.view()};
    const matrix y = product(ops, x, parts, biases);
    const matrix first = expected_linear(x, a, a_bias.widened().data(), 33);
    const matrix second = expected_linear(x, b, b_bias.widened().data(), 7);
    for (index r = 0; r < 4; ++r) {
        CHECK(differing(y.row(r), first.row(r), 33) == 0);
        CHECK(differing(y.row(r) + 33, second.row(r), 7) == 0);
    }
}

TEST_CASE("the bf16 tier reads both sides as its specification does, and tables as stored") {
    const dflash::cuda::exact ops({.activation = dflash::activation_type::bf16});
    noise random(9);
    for (const index k : {5, 128, 300}) {
        stored w(dtype::bf16, 40, k);
        matrix x(9, k);
        w.fill(random, content::wide);
        x.fill(random, content::wide);
        w.set_bits(1, 0x2B7F);  // just below 2^-40
        w.set_bits(2, 0x0001);
        x.row(0)[1] = 0x1.fep-41F;
        const std::array parts = {w.view()};
        const matrix y = product(ops, x, parts);
        std::vector<dflash::bf16> bits;
        for (const float value : w.widened()) {
            bits.push_back(numerics::to_bf16(value));
        }
        matrix right(9, 40);
        for (index r = 0; r < 9; ++r) {
            numerics::linear_bf16(bits.data(), nullptr, x.row(r), k, 40, right.row(r));
        }
        CHECK(differing(y, right) == 0);

        const auto table = ops.pack(parts);
        const std::array<dflash::token_id, 1> first = {0};
        device_matrix row(ops, 1, k);
        ops.gather(table, first, row.view());
        CHECK(differing(row.host(ops).row(0), w.widened().data(), k) == 0);
    }
}

TEST_CASE("what other rows hold does not show") {
    const dflash::cuda::exact ops;
    noise random(3);
    stored w(dtype::bf16, 40, 129);
    matrix x(9, 129);
    w.fill(random, content::plain);
    x.fill(random, content::plain);
    for (index c = 0; c < 129; ++c) {
        x.row(4)[c] = c % 2 == 0 ? numerics::infinity : numerics::not_a_number;
    }
    x.row(2)[128] = numerics::infinity;  // next to the padding of the last word
    const std::array parts = {w.view()};
    CHECK(differing(product(ops, x, parts), expected_linear(x, w, nullptr, 40)) == 0);
}

TEST_CASE("gather: rows in any order, from host memory and from pinned memory; ids outside are refused or NaN") {
    const dflash::cuda::exact ops;
    noise random(4);
    for (const dtype type : all_types) {
        stored w(type, 70, 37);
        w.fill(random, content::wide);
        const std::vector<float> wide = w.widened();
        const std::array parts = {w.view()};
        const auto table = ops.pack(parts);
        const std::vector<dflash::token_id> ids = {69, 0, 31, 32, 33, 0};
        device_matrix y(ops, 6, 37, 2);
        ops.gather(table, ids, y.view());
        const matrix rows = y.host(ops);
        for (index i = 0; i < 6; ++i) {
            CHECK(differing(rows.row(i), wide.data() + ids[static_cast<std::size_t>(i)] * 37, 37) == 0);
        }
        CHECK(rows.padding_intact());

        dflash::buffer<dflash::token_id, dflash::cuda::pinned_space> pinned(2);
        pinned[0] = 5;
        pinned[1] = 70;
        device_matrix z(ops, 2, 37);
        ops.gather(table, {pinned.data(), 2}, z.view());
        const matrix late = z.host(ops);
        CHECK(differing(late.row(0), wide.data() + 5 * 37, 37) == 0);
        CHECK(late.row(1)[0] != late.row(1)[0]);

        const std::vector<dflash::token_id> outside = {0, 70};
        CHECK_THROWS_AS(ops.gather(table, outside, z.view()), dflash::config_error);
    }
}

TEST_CASE("pack refuses what does not stack") {
    const dflash::cuda::exact ops;
    const stored a(dtype::f32, 3, 4);
    const stored b(dtype::f32, 3, 5);
    const stored bias(dtype::f32, 1, 2);
    const std::array uneven = {a.view(), b.view()};
    const std::array one = {a.view()};
    const std::array short_bias = {bias.view()};
    const std::array absent = {tensor_view{}};
    CHECK_THROWS_AS(static_cast<void>(ops.pack({}, {})), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack(uneven)), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack(one, short_bias)), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack(one, uneven)), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack(absent)), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack_vector({})), dflash::config_error);
}

}  // namespace cuda_tests
