// RMSNorm, rotary positions, SiLU, sums and copies of the exact CUDA backend, against numerics bit for bit.
#include <algorithm>

#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/rope.hpp>

#include "support.hpp"

namespace cuda_tests {

namespace {

matrix filled(index rows, index cols, std::uint64_t seed, content kind, index padding = 0) {
    noise random(seed);
    matrix m(rows, cols, padding);
    m.fill(random, kind);
    return m;
}

}  // namespace

TEST_CASE("rms_norm equals the scalar specification on both sides of every chunk, in place too") {
    const dflash::cuda::exact ops;
    std::uint64_t seed = 0;
    for (const index n : {1, 2, 31, 32, 33, 128, 255, 256, 257, 511, 513, 1030, 5000}) {
        ++seed;
        noise random(seed);
        stored w(dflash::dtype::bf16, 1, n);
        w.fill(random, content::plain);
        const auto weights = ops.pack_vector(w.view());
        const matrix x = filled(3, n, seed, static_cast<content>(seed % 4), 4);
        matrix right(3, n);
        for (index r = 0; r < 3; ++r) {
            numerics::rms_norm(x.row(r), w.widened().data(), 1e-6F, n, right.row(r));
        }
        device_matrix in(ops, x);
        device_matrix out(ops, 3, n, 2);
        ops.rms_norm(in.view(), weights, 1e-6F, out.view());
        ops.rms_norm(in.view(), weights, 1e-6F, in.view());
        CAPTURE(n);
        CHECK(differing(out.host(ops), right) == 0);
        CHECK(out.host(ops).padding_intact());
        CHECK(differing(in.host(ops), right) == 0);
    }
}

TEST_CASE("rms_norm_heads and rope go head by head, rope by position") {
    const dflash::cuda::exact ops;
    for (const index e : {2, 6, 64, 128, 320}) {
        const index heads = 3;
        noise random(static_cast<std::uint64_t>(e));
        stored w(dflash::dtype::f32, 1, e);
        w.fill(random, content::plain);
        const auto weights = ops.pack_vector(w.view());
        const numerics::rope_table table({}, e, 40);
        const matrix x = filled(4, heads * e, 8, content::plain, 7);
        matrix right = x;
        for (index r = 0; r < 4; ++r) {
            for (index h = 0; h < heads; ++h) {
                numerics::rms_norm(right.row(r) + h * e, w.widened().data(), 1e-5F, e, right.row(r) + h * e);
                numerics::rope_half(right.row(r) + h * e, table.cos(11 + r), table.sin(11 + r), e);
            }
        }
        device_matrix on(ops, x);
        ops.rms_norm_heads(on.view(), weights, 1e-5F, e);
        ops.rope(on.view(), e, table, 11);
        CAPTURE(e);
        CHECK(differing(on.host(ops), right) == 0);
        CHECK(on.host(ops).padding_intact());
    }
}

TEST_CASE("arithmetic that is not the specified one is refused, each kind by its sentence") {
    using kernel = dflash::cuda::self_test_kernel;
    const dflash::cuda::exact ops;
    dflash::buffer<float, dflash::cuda::pinned_space> memory(kernel::inputs + kernel::results);
    std::copy_n(kernel::given, kernel::inputs, memory.data());
    float* out = memory.data() + kernel::inputs;
    ops.context().launch<kernel>({.blocks = {}, .threads = 32, .shared_bytes = 0}, {memory.data(), out});
    ops.wait();
    CHECK_NOTHROW(dflash::cuda::detail::check_self_test(out));
    // What flush-to-zero, separate rounding, contraction and approximate division and roots would give.
    const float wrong[kernel::results] = {0.0F, 0.0F, 0.0F, 0x1p-24F, 0x1.555554p-3F, 0x1.bb67bp+0F};
    for (int i = 0; i < kernel::results; ++i) {
        CAPTURE(i);
        const float kept = out[i];
        out[i] = wrong[i];
        CHECK_THROWS_AS(dflash::cuda::detail::check_self_test(out), dflash::backend_error);
        out[i] = kept;
    }
}

TEST_CASE("more rows than a launch has are refused with both numbers") {
    const dflash::cuda::exact ops;
    device_matrix x(ops, 65536, 1);
    device_matrix y(ops, 65536, 1);
    CHECK_THROWS_WITH_AS(ops.add(x.view(), y.view()), doctest::Contains("65536 rows"), dflash::config_error);
}

TEST_CASE("another rotary table is another table, wherever it lies") {
    const dflash::cuda::exact ops;
    const matrix x = filled(1, 8, 3, content::plain);
    for (int i = 0; i < 40; ++i) {
        // Each takes the memory of the one before.
        numerics::rope_parameters parameters;
        parameters.theta = 100.0 * (i + 1);
        const numerics::rope_table table(parameters, 8, 20);
        matrix right = x;
        numerics::rope_half(right.row(0), table.cos(13), table.sin(13), 8);
        device_matrix on(ops, x);
        ops.rope(on.view(), 8, table, 13);
        CHECK(differing(on.host(ops), right) == 0);
    }
}

TEST_CASE("silu_mul, add and copy equal the scalar specification, at odd widths and with special values") {
    const dflash::cuda::exact ops;
    for (const index n : {1, 255, 256, 257, 700}) {
        matrix gate_up = filled(3, 2 * n, 5, content::wide, 3);
        gate_up.row(1)[0] = numerics::infinity;
        gate_up.row(2)[0] = -numerics::infinity;
        gate_up.row(0)[n - 1] = -0.0F;
        matrix right(3, n);
        for (index r = 0; r < 3; ++r) {
            for (index i = 0; i < n; ++i) {
                right.row(r)[i] = numerics::silu_mul(gate_up.row(r)[i], gate_up.row(r)[n + i]);
            }
        }
        device_matrix in(ops, gate_up);
        device_matrix out(ops, 3, n, 1);
        ops.silu_mul(in.view(), out.view());
        CAPTURE(n);
        CHECK(differing(out.host(ops), right) == 0);

        const matrix h = filled(3, n, 6, content::cancelling, 2);
        device_matrix sum(ops, h);
        ops.add(sum.view(), out.view());
        device_matrix copied(ops, 3, n, 5);
        ops.copy(sum.view(), copied.view());
        for (index r = 0; r < 3; ++r) {
            numerics::add(h.row(r), right.row(r), n, right.row(r));
        }
        CHECK(differing(copied.host(ops), right) == 0);
        CHECK(copied.host(ops).padding_intact());
    }
}

}  // namespace cuda_tests
