// What surrounds a matrix product of cuBLASLt: rows of bf16 that are padded with zeros, looked up, and biases.
#pragma once

#include <dflash/cuda/execution.hpp>
#include <dflash/numerics/convert.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Rows rounded to bf16 (nearest even), zeros behind their elements. From: float or bf16. block_x: some elements.
template <class From>
struct bf16_rows_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const From* x;  ///< (rows, cols)
        std::int64_t x_stride;
        bf16* y;  ///< (rows, y_stride)
        std::int64_t y_stride;
        std::int64_t elements;  ///< rows * y_stride
        int cols;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const std::int64_t i = std::int64_t{t.block_x()} * t.threads() + t.thread();
        if (i >= a.elements) {
            return;
        }
        const std::int64_t row = i / a.y_stride;
        const std::int64_t column = i % a.y_stride;
        bf16 value;
        if (column < a.cols) {
            const From x = a.x[row * a.x_stride + column];
            if constexpr (std::is_same_v<From, bf16>) {
                value = x;
            } else {
                value = numerics::to_bf16(x);
            }
        }
        a.y[i] = value;
    }
};

/// y = the rows `ids` of a table, widened. block_x: some columns, block_y: row. An id outside the table gives a row of
/// NaN, which no sampler accepts.
struct gather_rows_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const bf16* table;  ///< (rows, stride)
        std::int64_t stride;
        const token_id* ids;  ///< device or pinned memory
        float* y;
        std::int64_t y_stride;
        int rows;
        int cols;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int column = t.block_x() * t.threads() + t.thread();
        if (column >= a.cols) {
            return;
        }
        const token_id id = a.ids[t.block_y()];
        const bool known = id >= 0 && id < a.rows;
        a.y[t.block_y() * a.y_stride + column] =
            known ? numerics::to_float(a.table[id * a.stride + column]) : numerics::not_a_number;
    }
};

/// y = y + bias, in every row. block_x: some columns, block_y: row.
struct add_bias_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const float* bias;  ///< (n)
        float* y;
        std::int64_t y_stride;
        int n;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int i = t.block_x() * t.threads() + t.thread();
        if (i < a.n) {
            float& y = a.y[t.block_y() * a.y_stride + i];
            y = y + a.bias[i];
        }
    }
};

}  // namespace cuda

DFLASH_END_NAMESPACE
