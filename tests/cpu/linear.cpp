// linear, pack and gather of the exact backend, against numerics bit for bit.
#include <algorithm>
#include <array>

#include <dflash/numerics/linear.hpp>

#include "support.hpp"

namespace cpu_tests {

using dflash::dtype;
using dflash::tensor_view;
using dflash::cpu::isa;
namespace numerics = dflash::numerics;

namespace {

constexpr dtype all_types[] = {dtype::f32, dtype::bf16, dtype::f16};

/// y = x w^T by the scalar specification.
matrix expected_linear(const matrix& x, const std::vector<float>& w, const float* bias, index n) {
    matrix y(x.rows(), n);
    for (index r = 0; r < x.rows(); ++r) {
        numerics::linear(w.data(), bias, x.row(r), x.cols(), n, y.row(r));
    }
    return y;
}

struct problem {
    stored w;
    std::vector<float> wide;
    matrix x;

    problem(dtype type, index rows, index k, index n, content kind, std::uint64_t seed)
        : w(type, n, k), x(rows, k, seed % 3 == 0 ? 5 : 0, static_cast<index>(seed % 4)) {
        noise random(seed);
        w.fill(random, kind);
        x.fill(random, kind);
        wide = w.widened();
    }
};

}  // namespace

TEST_CASE("linear equals the scalar specification for odd sizes, every type, every instruction set") {
    constexpr index widths[] = {1, 2, 31, 32, 37, 64, 127, 128, 129, 130, 255, 256, 257, 513, 600};
    constexpr index heights[] = {1, 15, 16, 17, 33, 70};
    std::uint64_t seed = 0;
    for (const index k : widths) {
        for (const index n : heights) {
            for (const dtype type : all_types) {
                ++seed;
                const auto kind = static_cast<content>(seed % 4);
                const index rows = static_cast<index>(seed % 9) + 1;
                problem p(type, rows, k, n, kind, seed);
                const matrix right = expected_linear(p.x, p.wide, nullptr, n);
                for (const isa set : instruction_sets()) {
                    const auto ops = backend(set, 1);
                    const std::array parts = {p.w.view()};
                    const auto packed = ops.pack(parts);
                    matrix y(rows, n, 3, 1);
                    ops.linear(p.x.view(), packed, y.view());
                    CAPTURE(k);
                    CAPTURE(n);
                    CAPTURE(rows);
                    CAPTURE(name_of(type));
                    CAPTURE(label(set, 1));
                    REQUIRE(differing(y, right) == 0);
                    REQUIRE(y.padding_intact());
                }
            }
        }
    }
}

TEST_CASE("row r of a batched product is the one-row product, for every row count") {
    const index k = 300;
    const index n = 83;
    for (const dtype type : all_types) {
        problem p(type, 300, k, n, content::cancelling, 7);
        const matrix right = expected_linear(p.x, p.wide, nullptr, n);
        for (const isa set : instruction_sets()) {
            const auto ops = backend(set, 1);
            const std::array parts = {p.w.view()};
            const auto packed = ops.pack(parts);
            std::vector<index> counts = {31, 33, 64, 65, 127, 128, 129, 300};
            for (index m = 1; m <= 17; ++m) {
                counts.push_back(m);
            }
            for (const index m : counts) {
                if (set == isa::scalar && m > 65) {
                    continue;
                }
                const index first = m < 200 ? 300 - m : 0;
                matrix y(m, n);
                ops.linear(matrix_view<const float>(p.x.view()).rows(first, m), packed, y.view());
                index wrong = 0;
                for (index r = 0; r < m; ++r) {
                    wrong += differing(y.row(r), right.row(first + r), n);
                }
                CAPTURE(m);
                CAPTURE(name_of(type));
                CAPTURE(label(set, 1));
                REQUIRE(wrong == 0);
            }
        }
    }
}

TEST_CASE("threads do not show") {
    // Large enough that several threads really run.
    const index k = 700;
    const index n = 16 * 23 + 5;
    for (const dtype type : all_types) {
        problem p(type, 17, k, n, content::wide, 11);
        const matrix right = expected_linear(p.x, p.wide, nullptr, n);
        for (const isa set : instruction_sets()) {
            for (int threads = 1; threads <= 8; ++threads) {
                const auto ops = backend(set, threads);
                const std::array parts = {p.w.view()};
                const auto packed = ops.pack(parts);
                for (const index m : {index{1}, index{5}, index{17}}) {
                    matrix y(m, n);
                    ops.linear(matrix_view<const float>(p.x.view()).rows(0, m), packed, y.view());
                    index wrong = 0;
                    for (index r = 0; r < m; ++r) {
                        wrong += differing(y.row(r), right.row(r), n);
                    }
                    CAPTURE(m);
                    CAPTURE(label(set, threads));
                    REQUIRE(wrong == 0);
                }
            }
        }
    }
}

TEST_CASE("what other rows hold, and what lies behind the inputs, does not show") {
    const index k = 129;  // odd: 16-bit weights end in half a word
    const index n = 40;
    for (const dtype type : all_types) {
        problem p(type, 9, k, n, content::plain, 3);
        for (const index bad : {index{0}, index{4}, index{8}}) {
            for (index c = 0; c < k; ++c) {
                p.x.row(bad)[c] = c % 2 == 0 ? numerics::infinity : numerics::not_a_number;
            }
        }
        p.x.row(2)[k - 1] = numerics::infinity;  // the last element, next to the missing half
        const matrix right = expected_linear(p.x, p.wide, nullptr, n);
        for (const isa set : instruction_sets()) {
            const auto ops = backend(set, 1);
            const std::array parts = {p.w.view()};
            const auto packed = ops.pack(parts);
            matrix y(9, n);
            ops.linear(p.x.view(), packed, y.view());
            CAPTURE(name_of(type));
            CAPTURE(label(set, 1));
            REQUIRE(differing(y, right) == 0);
            REQUIRE(numerics::is_finite(y.row(1)[0]));
            REQUIRE(!numerics::is_finite(y.row(2)[0]));
            REQUIRE(y.row(2)[0] == y.row(2)[0]);  // infinite, not NaN: nothing was multiplied by a padding zero
        }
    }
}

TEST_CASE("every 16-bit pattern is widened exactly in the kernels") {
    // Each weight meets 1 alone in its row of x, so the product is the weight. -0 and the sums with +0 give +0.
    for (const dtype type : {dtype::bf16, dtype::f16}) {
        const index n = 4096;
        for (index base = 0; base < 65536; base += 2 * n) {
            stored w(type, n, 2);
            for (index i = 0; i < 2 * n; ++i) {
                w.set_bits(i, static_cast<std::uint16_t>(base + i));
            }
            matrix x(2, 2);
            x.row(0)[0] = 1.0F;
            x.row(0)[1] = 0.0F;
            x.row(1)[0] = 0.0F;
            x.row(1)[1] = 1.0F;
            const matrix right = expected_linear(x, w.widened(), nullptr, n);
            for (const isa set : instruction_sets()) {
                const auto ops = backend(set, 1);
                const std::array parts = {w.view()};
                const auto packed = ops.pack(parts);
                matrix y(2, n);
                ops.linear(x.view(), packed, y.view());
                CAPTURE(name_of(type));
                CAPTURE(label(set, 1));
                CAPTURE(base);
                REQUIRE(differing(y, right) == 0);
            }
        }
    }
}

TEST_CASE("parts are stacked, biases with them, mixed types are widened") {
    noise random(5);
    stored a(dtype::bf16, 5, 37);
    stored b(dtype::f16, 18, 37);
    stored c(dtype::bf16, 1, 37);
    stored bias_a(dtype::f32, 1, 5);
    stored bias_b(dtype::bf16, 1, 18);
    stored bias_c(dtype::f16, 1, 1);
    for (stored* t : {&a, &b, &c, &bias_a, &bias_b, &bias_c}) {
        t->fill(random, content::plain);
    }
    std::vector<float> w = a.widened();
    std::vector<float> bias = bias_a.widened();
    for (const stored* t : {&b, &c}) {
        const auto more = t->widened();
        w.insert(w.end(), more.begin(), more.end());
    }
    for (const stored* t : {&bias_b, &bias_c}) {
        const auto more = t->widened();
        bias.insert(bias.end(), more.begin(), more.end());
    }
    matrix x(3, 37);
    x.fill(random, content::plain);
    const matrix right = expected_linear(x, w, bias.data(), 24);
    for (const isa set : instruction_sets()) {
        const auto ops = backend(set, 2);
        const std::array parts = {a.view(), b.view(), c.view()};
        const std::array biases = {bias_a.view(), bias_b.view(), bias_c.view()};
        const auto packed = ops.pack(parts, biases);
        CHECK(packed.type() == dtype::f32);
        CHECK(packed.rows() == 24);
        CHECK(packed.cols() == 37);
        matrix y(3, 24);
        ops.linear(x.view(), packed, y.view());
        CHECK(differing(y, right) == 0);

        const std::array same = {a.view(), c.view()};
        CHECK(ops.pack(same).type() == dtype::bf16);
    }
}

TEST_CASE("pack refuses what does not fit, naming it") {
    const dflash::cpu::exact ops;
    stored a(dtype::f32, 2, 3);
    stored b(dtype::f32, 2, 4);
    stored bias(dtype::f32, 1, 3);
    const std::array different = {a.view(), b.view()};
    CHECK_THROWS_WITH_AS(static_cast<void>(ops.pack(different)), "pack: part 1 has 4 columns, needs 3",
                         dflash::config_error);
    const std::array one = {a.view()};
    const std::array biases = {bias.view()};
    CHECK_THROWS_WITH_AS(static_cast<void>(ops.pack(one, biases)), "pack: bias 0 has 3 elements, needs 2",
                         dflash::config_error);
    const std::array two = {bias.view(), bias.view()};
    CHECK_THROWS_AS(static_cast<void>(ops.pack(one, two)), dflash::config_error);
    const std::array absent = {tensor_view{}};
    CHECK_THROWS_AS(static_cast<void>(ops.pack(absent)), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack({})), dflash::config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack_vector({})), dflash::config_error);
}

TEST_CASE("gather reads the stored rows back, exactly") {
    for (const dtype type : all_types) {
        for (const index k : {index{1}, index{2}, index{33}, index{128}}) {
            noise random(static_cast<std::uint64_t>(k));
            stored table(type, 35, k);
            table.fill(random, content::wide);
            const auto wide = table.widened();
            const dflash::cpu::exact ops;
            const std::array parts = {table.view()};
            const auto packed = ops.pack(parts);
            const std::array<dflash::token_id, 5> ids = {34, 0, 15, 16, 0};
            matrix y(5, k, 2, 1);
            ops.gather(packed, ids, y.view());
            for (index i = 0; i < 5; ++i) {
                CHECK(differing(y.row(i), wide.data() + ids[static_cast<std::size_t>(i)] * k, k) == 0);
            }
            CHECK(y.padding_intact());
            matrix one(1, k);
            for (const dflash::token_id id : {-1, 35}) {
                const std::array<dflash::token_id, 1> bad = {id};
                CHECK_THROWS_AS(ops.gather(packed, bad, one.view()), dflash::config_error);
            }
        }
    }
}

}  // namespace cpu_tests
