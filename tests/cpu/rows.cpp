// Norms, RoPE, SiLU, addition and copies of the exact backend, against numerics bit for bit.
#include <array>

#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/rope.hpp>

#include "support.hpp"

namespace cpu_tests {

using dflash::dtype;
using dflash::cpu::isa;
namespace numerics = dflash::numerics;

namespace {

constexpr index widths[] = {1, 2, 15, 16, 17, 31, 32, 33, 127, 129, 255, 256, 257, 300, 513, 2049, 4100};

}  // namespace

TEST_CASE("rms_norm equals the scalar specification, in place too") {
    for (const index n : widths) {
        noise random(static_cast<std::uint64_t>(n));
        const auto kind = static_cast<content>(n % 4);
        matrix x(5, n, 3, 1);
        x.fill(random, kind);
        x.row(2)[n - 1] = numerics::not_a_number;  // stays in its row
        x.row(3)[0] = numerics::infinity;
        stored weight(dtype::bf16, 1, n);
        weight.fill(random, content::plain);
        const auto wide = weight.widened();
        matrix right(5, n);
        for (index r = 0; r < 5; ++r) {
            numerics::rms_norm(x.row(r), wide.data(), 1e-6F, n, right.row(r));
        }
        for (const isa set : instruction_sets()) {
            for (const int threads : {1, 3}) {
                const auto ops = backend(set, threads);
                const auto w = ops.pack_vector(weight.view());
                matrix y(5, n, 1, 2);
                ops.rms_norm(x.view(), w, 1e-6F, y.view());
                CAPTURE(n);
                CAPTURE(label(set, threads));
                REQUIRE(differing(y, right) == 0);
                REQUIRE(y.padding_intact());
                matrix same = x;
                ops.rms_norm(same.view(), w, 1e-6F, same.view());
                REQUIRE(differing(same, right) == 0);
            }
        }
    }
}

TEST_CASE("rms_norm over many rows on several threads") {
    const index n = 1500;
    noise random(1);
    matrix x(130, n);
    x.fill(random, content::wide);
    stored weight(dtype::f32, 1, n);
    weight.fill(random, content::plain);
    const auto wide = weight.widened();
    matrix right(130, n);
    for (index r = 0; r < 130; ++r) {
        numerics::rms_norm(x.row(r), wide.data(), 1e-5F, n, right.row(r));
    }
    for (const isa set : instruction_sets()) {
        for (int threads = 1; threads <= 8; ++threads) {
            const auto ops = backend(set, threads);
            matrix y(130, n);
            ops.rms_norm(x.view(), ops.pack_vector(weight.view()), 1e-5F, y.view());
            CAPTURE(label(set, threads));
            CHECK(differing(y, right) == 0);
        }
    }
}

TEST_CASE("rms_norm_heads norms every head by itself") {
    for (const index head_dim : {index{2}, index{16}, index{20}, index{128}, index{300}}) {
        noise random(static_cast<std::uint64_t>(head_dim));
        const index heads = 3;
        matrix x(4, heads * head_dim, 7, 1);
        x.fill(random, content::plain);
        stored weight(dtype::f16, 1, head_dim);
        weight.fill(random, content::plain);
        const auto wide = weight.widened();
        matrix right(4, heads * head_dim);
        for (index r = 0; r < 4; ++r) {
            for (index h = 0; h < heads; ++h) {
                numerics::rms_norm(x.row(r) + h * head_dim, wide.data(), 1e-6F, head_dim, right.row(r) + h * head_dim);
            }
        }
        for (const isa set : instruction_sets()) {
            const auto ops = backend(set, 2);
            matrix y = x;
            ops.rms_norm_heads(y.view(), ops.pack_vector(weight.view()), 1e-6F, head_dim);
            CAPTURE(head_dim);
            CAPTURE(label(set, 2));
            CHECK(differing(y, right) == 0);
            CHECK(y.padding_intact());
        }
    }
}

TEST_CASE("rope rotates row i by position + i") {
    for (const index head_dim : {index{2}, index{6}, index{30}, index{32}, index{34}, index{128}, index{256}}) {
        const numerics::rope_table table(numerics::rope_parameters{}, head_dim, 700);
        for (const index position : {index{0}, index{513}}) {
            noise random(static_cast<std::uint64_t>(head_dim + position));
            const index heads = 3;
            const index rows = 80;
            matrix x(rows, heads * head_dim, 5, 3);
            x.fill(random, static_cast<content>(head_dim / 2 % 4));
            matrix right = x;
            for (index r = 0; r < rows; ++r) {
                for (index h = 0; h < heads; ++h) {
                    numerics::rope_half(right.row(r) + h * head_dim, table.cos(position + r), table.sin(position + r),
                                        head_dim);
                }
            }
            for (const isa set : instruction_sets()) {
                for (const int threads : {1, 4}) {
                    const auto ops = backend(set, threads);
                    matrix y = x;
                    ops.rope(y.view(), head_dim, table, position);
                    CAPTURE(head_dim);
                    CAPTURE(label(set, threads));
                    CHECK(differing(y, right) == 0);
                    CHECK(y.padding_intact());
                }
            }
        }
    }
}

TEST_CASE("silu_mul equals the scalar specification, thresholds of exp included") {
    const float special[] = {0.0F,
                             -0.0F,
                             88.7F,
                             88.8F,
                             -87.3F,
                             -87.4F,
                             1e30F,
                             -1e30F,
                             0x1p-149F,
                             -0x1p-149F,
                             numerics::infinity,
                             -numerics::infinity,
                             87.33654F,
                             -88.72284F,
                             103.9F,
                             -103.9F,
                             numerics::not_a_number,
                             1.0F};
    for (const index n : widths) {
        noise random(static_cast<std::uint64_t>(n));
        matrix x(3, 2 * n, 3, 1);
        x.fill(random, content::wide);
        for (index i = 0; i < n; ++i) {
            x.row(1)[i] = random.unit() * 100.0F;
            x.row(2)[i] = special[i % 18];
            x.row(2)[n + i] = 1.5F;
        }
        matrix right(3, n);
        for (index r = 0; r < 3; ++r) {
            for (index i = 0; i < n; ++i) {
                right.row(r)[i] = numerics::silu_mul(x.row(r)[i], x.row(r)[n + i]);
            }
        }
        for (const isa set : instruction_sets()) {
            for (const int threads : {1, 3}) {
                const auto ops = backend(set, threads);
                matrix y(3, n, 1, 2);
                ops.silu_mul(x.view(), y.view());
                CAPTURE(n);
                CAPTURE(label(set, threads));
                REQUIRE(differing(y, right) == 0);
                REQUIRE(y.padding_intact());
            }
        }
    }
}

TEST_CASE("exp in lanes is numerics::exp for a sweep over all floats") {
    // silu_mul(-x, e) with e = 1 exposes 1 / (1 + exp(x)); a stride that is odd visits every exponent and sign.
    const index n = 100000;
    matrix x(1, 2 * n);
    std::uint32_t bits = 12345;
    for (index i = 0; i < n; ++i) {
        bits += 42949U;
        x.row(0)[i] = numerics::from_bits(bits);
        x.row(0)[n + i] = 1.0F;
    }
    matrix right(1, n);
    for (index i = 0; i < n; ++i) {
        right.row(0)[i] = numerics::silu_mul(x.row(0)[i], 1.0F);
    }
    for (const isa set : instruction_sets()) {
        matrix y(1, n);
        backend(set, 2).silu_mul(x.view(), y.view());
        CAPTURE(label(set, 2));
        CHECK(differing(y, right) == 0);
    }
}

TEST_CASE("add and copy") {
    for (const index n : widths) {
        noise random(static_cast<std::uint64_t>(n));
        matrix h(40, n, 3, 1);
        matrix o(40, n, 1, 2);
        h.fill(random, content::cancelling);
        o.fill(random, content::wide);
        matrix right = h;
        for (index r = 0; r < 40; ++r) {
            numerics::add(h.row(r), o.row(r), n, right.row(r));
        }
        for (const isa set : instruction_sets()) {
            const auto ops = backend(set, 2);
            matrix y = h;
            ops.add(y.view(), o.view());
            CAPTURE(n);
            CAPTURE(label(set, 2));
            CHECK(differing(y, right) == 0);
            CHECK(y.padding_intact());
            matrix z(40, n, 2, 0);
            ops.copy(y.view(), z.view());
            CHECK(differing(z, right) == 0);
            CHECK(z.padding_intact());
        }
    }
}

}  // namespace cpu_tests
