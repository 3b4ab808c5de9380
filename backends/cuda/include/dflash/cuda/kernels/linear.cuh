// Packed weights and y = x w^T (+ bias) for one to some dozen rows, in the order of numerics::linear.
//
// Weights lie in panels of 32 outputs, (panels, groups of k, 32) words of 16 bytes: a word holds 4 or 8 neighbours of k
// of one output, so that a warp reads 512 bytes in a row. A warp owns a chunk of 128 k of one panel: the chain of an
// output and a row runs in one thread, and the chunk sums are added in ascending order by one thread. Threads, warps
// and row tiles are free choices; none of them reaches a result.
#pragma once

#include <dflash/cuda/execution.hpp>
#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/dot.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Outputs of one panel.
inline constexpr int panel_width = 32;

namespace detail {

/// Elements of one word.
template <class W>
inline constexpr int per_word = static_cast<int>(sizeof(word4) / sizeof(W));

DFLASH_DEVICE inline float element(const word4& word, int i, float) {
    return numerics::from_bits(word.v[i]);
}
template <class W>
DFLASH_DEVICE float element(const word4& word, int i, W) {
    return numerics::to_float(W{static_cast<std::uint16_t>(word.v[i / 2] >> (16 * (i % 2)))});
}

DFLASH_DEVICE inline std::uint32_t bits_of(float x) {
    return numerics::to_bits(x);
}
DFLASH_DEVICE inline std::uint32_t bits_of(bf16 x) {
    return x.bits;
}
DFLASH_DEVICE inline std::uint32_t bits_of(f16 x) {
    return x.bits;
}

/// Words of one panel.
template <class W>
DFLASH_HD constexpr std::int64_t panel_words(int k) {
    return std::int64_t{(k + per_word<W> - 1) / per_word<W>} * panel_width;
}

}  // namespace detail

/// Rows of a stored matrix become part of the panels. Each block writes `max_threads` words.
/// From is the stored type, W the packed one: the same, or float.
template <class From, class W>
struct pack_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const From* stored;  ///< (rows, k)
        word4* packed;       ///< all panels
        int rows;
        int k;
        int first;  ///< where the rows go among the outputs
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int groups = (a.k + detail::per_word<W> - 1) / detail::per_word<W>;
        const std::int64_t i = std::int64_t{t.block_x()} * t.threads() + t.thread();
        if (i >= std::int64_t{groups} * a.rows) {
            return;
        }
        const auto row = static_cast<int>(i / groups);
        const auto group = static_cast<int>(i % groups);
        word4 word = {};
        for (int j = 0; j < detail::per_word<W>; ++j) {
            const int at = group * detail::per_word<W> + j;
            if (at >= a.k) {
                break;
            }
            const From value = a.stored[std::int64_t{row} * a.k + at];
            if constexpr (std::is_same_v<From, W>) {
                constexpr int in_register = 4 / static_cast<int>(sizeof(W));
                word.v[j / in_register] |= detail::bits_of(value) << (j % in_register * 16);
            } else {
                word.v[j] = numerics::to_bits(numerics::to_float(value));
            }
        }
        const int output = a.first + row;
        a.packed[(std::int64_t{output / panel_width} * groups + group) * panel_width + output % panel_width] = word;
    }
};

/// A vector of any stored type, widened.
template <class From>
struct widen_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const From* stored;
        float* out;
        int n;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int i = t.block_x() * t.threads() + t.thread();
        if (i < a.n) {
            a.out[i] = numerics::to_float(a.stored[i]);
        }
    }
};

/// y = the rows `ids` of a packed table, widened. block_x: 256 columns, block_y: row. An id outside the table gives a
/// row of NaN, which no sampler accepts.
template <class W>
struct gather_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const word4* packed;
        const token_id* ids;  ///< (m), device or pinned memory
        float* y;
        std::int64_t y_stride;
        int outputs;
        int k;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int column = t.block_x() * t.threads() + t.thread();
        if (column >= a.k) {
            return;
        }
        const token_id id = a.ids[t.block_y()];
        float value = numerics::not_a_number;
        if (id >= 0 && id < a.outputs) {
            const word4* panel = a.packed + id / panel_width * detail::panel_words<W>(a.k);
            const word4 word = panel[column / detail::per_word<W> * panel_width + id % panel_width];
            value = detail::element(word, column % detail::per_word<W>, W{});
        }
        a.y[t.block_y() * a.y_stride + column] = value;
    }
};

/// y = x w^T (+ bias). block_x: panel, block_y: tile of Rows rows. Rounded: both sides as the bf16 tier reads them.
template <class W, bool Rounded, int Rows>
struct linear_kernel {
    static constexpr int max_threads = 512;
    static constexpr int chunk = static_cast<int>(numerics::dot_chunk);

    // A thread holds some outputs of some rows: what it reads of x serves several outputs, what it reads of w several
    // rows. Lanes that share an output read the same words.
    static constexpr int row_lanes = Rows >= 16 ? 4 : Rows >= 8 ? 2 : 1;
    static constexpr int own_outputs = row_lanes;
    static constexpr int own_rows = Rows / row_lanes;
    static constexpr int columns = warp_size / row_lanes;
    static_assert(Rows % row_lanes == 0);
    static_assert(!Rounded || std::is_same_v<W, bf16>, "the bf16 tier is about bf16 weights");

    struct arguments {
        const word4* w;
        const float* bias;  ///< (n) or null
        const float* x;
        std::int64_t x_stride;
        float* y;
        std::int64_t y_stride;
        int rows;
        int k;
        int n;
    };

    /// Shared memory: x of the chunks at work (warps, 128, Rows), their sums (warps, Rows, 32), totals (Rows, 32).
    static constexpr int shared_bytes(int warps) {
        return 4 * (warps * chunk * Rows + warps * Rows * panel_width + Rows * panel_width);
    }

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int warps = t.threads() / warp_size;
        float* x = t.template shared<float>(0);
        float* sums = x + warps * chunk * Rows;
        float* totals = sums + warps * Rows * panel_width;
        const int row0 = t.block_y() * Rows;
        const int chunks = (a.k + chunk - 1) / chunk;
        const word4* panel = a.w + t.block_x() * detail::panel_words<W>(a.k);

        for (int stage = 0; stage < chunks; stage += warps) {
            load(t, a, row0, stage * chunk, warps * chunk, x);
            t.sync();
            if (stage + t.warp() < chunks) {
                multiply(t, a, panel, stage + t.warp(), x + t.warp() * chunk * Rows,
                         sums + t.warp() * Rows * panel_width);
            }
            t.sync();
            // The next stage's load touches x alone, and its sums are written behind its barrier.
            const int ready = chunks - stage < warps ? chunks - stage : warps;
            for (int e = t.thread(); e < Rows * panel_width; e += t.threads()) {
                float total = stage == 0 ? 0.0F : totals[e];
                for (int c = 0; c < ready; ++c) {
                    total = total + sums[c * Rows * panel_width + e];
                }
                totals[e] = total;
            }
        }
        for (int e = t.thread(); e < Rows * panel_width; e += t.threads()) {
            const int row = row0 + e / panel_width;
            const int output = t.block_x() * panel_width + e % panel_width;
            if (row < a.rows && output < a.n) {
                const float total = chunks == 0 ? 0.0F : totals[e];
                a.y[row * a.y_stride + output] = a.bias != nullptr ? total + a.bias[output] : total;
            }
        }
    }

private:
    /// Elements first .. first + count - 1 of the tile's rows, (count, Rows); zeros where there are none.
    template <class Thread>
    DFLASH_DEVICE static void load(const Thread& t, const arguments& a, int row0, int first, int count, float* x) {
        for (int i = t.thread(); i < count * Rows; i += t.threads()) {
            const int row = row0 + i / count;
            const int k = first + i % count;
            float value = 0.0F;
            if (row < a.rows && k < a.k) {
                value = a.x[row * a.x_stride + k];
                if constexpr (Rounded) {
                    value = numerics::to_float(numerics::bf16_operand(value));
                }
            }
            x[i % count * Rows + i / count] = value;
        }
    }

    /// Panels hold what was stored, since tables are looked up in them, too.
    DFLASH_DEVICE static float weight(const word4& word, int j) {
        if constexpr (Rounded) {
            const bf16 stored{static_cast<std::uint16_t>(word.v[j / 2] >> (16 * (j % 2)))};
            return numerics::to_float(numerics::bf16_operand(stored));
        } else {
            return detail::element(word, j, W{});
        }
    }

    /// The chains of one chunk. What lies behind k is zero on both sides and adds nothing but +0.
    template <class Thread>
    DFLASH_DEVICE static void multiply(const Thread& t, const arguments& a, const word4* panel, int c, const float* x,
                                       float* sums) {
        constexpr int words = chunk / detail::per_word<W>;
        const int groups = (a.k + detail::per_word<W> - 1) / detail::per_word<W>;
        const int last = groups - c * words < words ? groups - c * words : words;
        const int column = t.lane() % columns;
        const int row = t.lane() / columns * own_rows;
        float chain[std::size_t{own_outputs}][std::size_t{own_rows}] = {};
        const word4* at = panel + std::int64_t{c} * words * panel_width + column;
        DFLASH_UNROLL_BY_4
        for (int g = 0; g < last; ++g) {
            word4 word[std::size_t{own_outputs}];
            for (int o = 0; o < own_outputs; ++o) {
                word[o] = at[g * panel_width + o * columns];
            }
            DFLASH_UNROLL
            for (int j = 0; j < detail::per_word<W>; ++j) {
                const float* values = x + (g * detail::per_word<W> + j) * Rows + row;
                DFLASH_UNROLL
                for (int o = 0; o < own_outputs; ++o) {
                    const float w = weight(word[o], j);
                    DFLASH_UNROLL
                    for (int r = 0; r < own_rows; ++r) {
                        chain[o][r] = numerics::fma(w, values[r], chain[o][r]);
                    }
                }
            }
        }
        for (int o = 0; o < own_outputs; ++o) {
            for (int r = 0; r < own_rows; ++r) {
                sums[(row + r) * panel_width + o * columns + column] = chain[o][r];
            }
        }
    }
};

}  // namespace cuda

DFLASH_END_NAMESPACE
