// What is done row by row: RMSNorm, rotary positions, SiLU, sums and copies, in the order of numerics/.
#pragma once

#include <dflash/cuda/execution.hpp>
#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/numerics/sum.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// A position that a recorded graph finds in device memory when it runs: *base + offset, or offset without a base.
struct position_ref {
    const int* base = nullptr;
    int offset = 0;

    DFLASH_DEVICE int value() const { return base != nullptr ? *base + offset : offset; }
};

/// Writes the position that graphs start from.
struct set_position_kernel {
    static constexpr int max_threads = warp_size;

    struct arguments {
        int* base;
        int value;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.thread() == 0) {
            *a.base = a.value;
        }
    }
};

namespace detail {

/// The fold of numerics::sum_lanes over one warp; lane 0 has the result. The whole warp must call it.
template <class Thread>
DFLASH_DEVICE float fold_lanes(const Thread& t, float lane) {
    for (int half = warp_size / 2; half > 0; half /= 2) {
        lane = lane + t.shuffle_down(lane, half);
    }
    return lane;
}

}  // namespace detail

/// RMSNorm of heads of n elements. block_x: head, block_y: row. y may be x.
struct rms_norm_kernel {
    static constexpr int max_threads = 512;
    static constexpr int chunk = static_cast<int>(numerics::sum_chunk);
    static_assert(numerics::sum_width == warp_size, "a lane of the sum is a lane of a warp");

    struct arguments {
        const float* x;
        std::int64_t x_stride;
        const float* weight;
        float eps;
        float* y;
        std::int64_t y_stride;
        int n;
    };

    /// Shared memory: one sum for each chunk.
    static constexpr int shared_bytes(int n) { return 4 * ((n + chunk - 1) / chunk); }

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        float* sums = t.template shared<float>(0);
        const float* x = a.x + t.block_y() * a.x_stride + t.block_x() * a.n;
        float* y = a.y + t.block_y() * a.y_stride + t.block_x() * a.n;
        const int chunks = (a.n + chunk - 1) / chunk;
        for (int c = t.warp(); c < chunks; c += t.threads() / warp_size) {
            const int count = a.n - c * chunk < chunk ? a.n - c * chunk : chunk;
            float lane = 0.0F;
            for (int i = t.lane(); i < count; i += warp_size) {
                lane = numerics::fma(x[c * chunk + i], x[c * chunk + i], lane);
            }
            lane = detail::fold_lanes(t, lane);
            if (t.lane() == 0) {
                sums[c] = lane;
            }
        }
        t.sync();
        float total = 0.0F;
        for (int c = 0; c < chunks; ++c) {
            total = total + sums[c];
        }
        const float mean = numerics::divide(total, static_cast<float>(a.n));
        const float r = numerics::divide(1.0F, numerics::sqrt(mean + a.eps));
        for (int i = t.thread(); i < a.n; i += t.threads()) {
            y[i] = (x[i] * r) * a.weight[i];
        }
    }
};

/// Rotates half-split pairs in place. block_x: some pairs of a row, block_y: row, at position + row.
struct rope_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        float* x;
        std::int64_t x_stride;
        const float* cos;  ///< (positions, e/2)
        const float* sin;
        int heads;
        int half;
        position_ref position;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int i = t.block_x() * t.threads() + t.thread();
        if (i >= a.heads * a.half) {
            return;
        }
        const int d = i % a.half;
        float* x = a.x + t.block_y() * a.x_stride + i / a.half * 2 * a.half + d;
        const std::int64_t at = std::int64_t{a.position.value() + t.block_y()} * a.half + d;
        numerics::detail::rotate_pair(x[0], x[a.half], a.cos[at], a.sin[at]);
    }
};

/// y = silu(gate) * up, gate_up (m, 2n). block_x: some columns, block_y: row.
struct silu_mul_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const float* gate_up;
        std::int64_t gate_up_stride;
        float* y;
        std::int64_t y_stride;
        int n;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int i = t.block_x() * t.threads() + t.thread();
        if (i < a.n) {
            const float* gate = a.gate_up + t.block_y() * a.gate_up_stride;
            a.y[t.block_y() * a.y_stride + i] = numerics::silu_mul(gate[i], gate[a.n + i]);
        }
    }
};

/// y = x, or y = y + x. block_x: some columns, block_y: row.
template <bool Add>
struct move_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const float* x;
        std::int64_t x_stride;
        float* y;
        std::int64_t y_stride;
        int n;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int i = t.block_x() * t.threads() + t.thread();
        if (i < a.n) {
            const float x = a.x[t.block_y() * a.x_stride + i];
            float& y = a.y[t.block_y() * a.y_stride + i];
            y = Add ? y + x : x;
        }
    }
};

}  // namespace cuda

DFLASH_END_NAMESPACE
