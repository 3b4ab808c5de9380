// The cache's layout on a device, and attention over it in the order of numerics::attend_row.
//
// Two kernels: one walks a chunk of 256 positions for a tile of query vectors and leaves (m, l, o) of that chunk, the
// other joins the chunks of a row in ascending order. The query heads of a KV head share what is read of K and V. What
// a query may not see is skipped, never masked by arithmetic, so it may hold anything.
#pragma once

#include <dflash/concepts/attention.hpp>
#include <dflash/cuda/execution.hpp>
#include <dflash/cuda/kernels/rows.cuh>
#include <dflash/numerics/attention.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Positions of one key panel.
inline constexpr int device_key_panel = 32;

/// Keys of one KV head: (panels, quads, 32, 4), where a quad is four neighbours of e; the last one is padded with
/// zeros.
DFLASH_HD constexpr int head_quads(int head_dim) {
    return (head_dim + 3) / 4;
}
/// Where element d of a position's key lies, from the start of its KV head.
DFLASH_HD constexpr std::int64_t key_offset(int position, int d, int quads) {
    const std::int64_t quad = std::int64_t{position / device_key_panel} * quads + d / 4;
    return (quad * device_key_panel + position % device_key_panel) * 4 + d % 4;
}

/// Four floats that are loaded together.
struct alignas(16) float4_word {
    float v[4];
};

/// Writes K and V rows of one layer into the cache. block_x: some elements of all heads, block_y: row.
struct write_cache_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        const float* keys;  ///< (m, g*e)
        std::int64_t keys_stride;
        const float* values;  ///< (m, g*e)
        std::int64_t values_stride;
        float* cached_keys;      ///< of the layer
        float* cached_values;    ///< of the layer: (g, positions, e)
        std::int64_t keys_head;  ///< from one KV head to the next
        std::int64_t values_head;
        int kv_heads;
        int head_dim;
        position_ref position;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int padded = 4 * head_quads(a.head_dim);
        const int i = t.block_x() * t.threads() + t.thread();
        if (i >= a.kv_heads * padded) {
            return;
        }
        const int head = i / padded;
        const int d = i % padded;
        const int position = a.position.value() + t.block_y();
        const bool real = d < a.head_dim;
        a.cached_keys[head * a.keys_head + key_offset(position, d, head_quads(a.head_dim))] =
            real ? a.keys[t.block_y() * a.keys_stride + head * a.head_dim + d] : 0.0F;
        if (real) {
            a.cached_values[head * a.values_head + std::int64_t{position} * a.head_dim + d] =
                a.values[t.block_y() * a.values_stride + head * a.head_dim + d];
        }
    }
};

/// What both attention kernels are told.
struct attention_arguments {
    const float* queries;  ///< (m, h*e)
    std::int64_t queries_stride;
    const float* keys;  ///< of the layer
    const float* values;
    std::int64_t keys_head;
    std::int64_t values_head;
    float* partial_o;   ///< (m*h, chunks, e)
    float* partial_ml;  ///< (m*h, chunks, 2): m and l
    float* out;         ///< (m, h*e)
    std::int64_t out_stride;
    int rows;
    int heads;
    int kv_heads;
    int head_dim;
    int chunks;  ///< of the partials, at least as many as there are positions for
    float scale;
    position_ref position;  ///< of row 0
    int behind;             ///< positions cached = position + behind
    mask_rule mask;

    [[nodiscard]] DFLASH_DEVICE key_range seen(int row) const {
        const int first = position.value();
        return keys_of(first + row, first + behind);
    }

private:
    /// mask_rule::keys, for device code.
    [[nodiscard]] DFLASH_DEVICE key_range keys_of(index query, index length) const {
        const index first = mask.window > 0 && query - mask.window + 1 > 0 ? query - mask.window + 1 : 0;
        const index last = mask.causal ? query + 1 : (mask.window > 0 ? query + mask.window : length);
        return {first < length ? first : length, last < length ? last : length};
    }
};

/// One chunk. block_x: chunk, block_y: KV head, block_z: tile of query vectors; vector v is head v mod group of row
/// v / group. As many threads as a chunk has positions.
template <int Tile>
struct attend_chunk_kernel {
    static constexpr int chunk = static_cast<int>(numerics::key_chunk);
    static constexpr int max_threads = chunk;
    using arguments = attention_arguments;

    /// Shared memory: queries (Tile, 4 quads), scores (Tile, 256).
    static constexpr int shared_bytes(int head_dim) { return 4 * Tile * (4 * head_quads(head_dim) + chunk); }

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int group = a.heads / a.kv_heads;
        const int quads = head_quads(a.head_dim);
        const int start = t.block_x() * chunk;
        const int vectors = a.rows * group;
        const int first_vector = t.block_z() * Tile;
        float* q = t.template shared<float>(0);
        float* p = q + Tile * 4 * quads;

        // What each vector sees of this chunk; one that does not exist sees nothing.
        int low[std::size_t{Tile}];
        int high[std::size_t{Tile}];
        int lowest = chunk;
        int highest = 0;
        for (int v = 0; v < Tile; ++v) {
            low[v] = high[v] = 0;
            if (first_vector + v < vectors) {
                const key_range keys = a.seen((first_vector + v) / group);
                const index from = keys.first - start;
                const index to = keys.last - start;
                low[v] = from > 0 ? static_cast<int>(from < chunk ? from : chunk) : 0;
                high[v] = to > 0 ? static_cast<int>(to < chunk ? to : chunk) : 0;
            }
            if (low[v] < high[v]) {
                lowest = low[v] < lowest ? low[v] : lowest;
                highest = high[v] > highest ? high[v] : highest;
            }
        }
        if (lowest >= highest) {
            return;  // the same for all threads of the block
        }

        for (int i = t.thread(); i < Tile * 4 * quads; i += t.threads()) {
            const int v = first_vector + i / (4 * quads);
            const int d = i % (4 * quads);
            const bool real = v < vectors && d < a.head_dim;
            q[i] = real ? a.queries[v / group * a.queries_stride + (t.block_y() * group + v % group) * a.head_dim + d] *
                              a.scale
                        : 0.0F;
        }
        t.sync();
        score(t, a, start, lowest, highest, quads, q, p);
        t.sync();
        for (int v = t.warp(); v < Tile; v += t.threads() / warp_size) {
            weigh(t, a, first_vector + v, low[v], high[v], p + v * chunk);
        }
        t.sync();
        for (int d = t.thread(); d < a.head_dim; d += t.threads()) {
            gather_values(t, a, start, first_vector, d, low, high, lowest, highest, p);
        }
    }

private:
    /// Thread j: the scores of position start + j, for all vectors.
    template <class Thread>
    DFLASH_DEVICE static void score(const Thread& t, const arguments& a, int start, int lowest, int highest, int quads,
                                    const float* q, float* p) {
        const int j = t.thread();
        if (j < lowest || j >= highest) {
            return;
        }
        constexpr int quads_of_chain = static_cast<int>(numerics::dot_chunk) / 4;
        const auto* keys =
            reinterpret_cast<const float4_word*>(a.keys + t.block_y() * a.keys_head + key_offset(start + j, 0, quads));
        float total[std::size_t{Tile}] = {};
        for (int c = 0; c < quads; c += quads_of_chain) {
            const int last = quads - c < quads_of_chain ? quads : c + quads_of_chain;
            float chain[std::size_t{Tile}] = {};
            for (int quad = c; quad < last; ++quad) {
                const float4_word k = keys[quad * device_key_panel];
                DFLASH_UNROLL
                for (int v = 0; v < Tile; ++v) {
                    DFLASH_UNROLL
                    for (int i = 0; i < 4; ++i) {
                        chain[v] = numerics::fma(q[v * 4 * quads + quad * 4 + i], k.v[i], chain[v]);
                    }
                }
            }
            for (int v = 0; v < Tile; ++v) {
                total[v] = total[v] + chain[v];
            }
        }
        for (int v = 0; v < Tile; ++v) {
            p[v * chunk + j] = total[v];
        }
    }

    /// One warp: maximum, exponentials and their sum of one vector.
    template <class Thread>
    DFLASH_DEVICE static void weigh(const Thread& t, const arguments& a, int vector, int low, int high, float* p) {
        if (low >= high) {
            return;  // the same for the whole warp
        }
        // A lane reads and writes the same scores: shuffles order no memory. Where a score is NaN the row is NaN
        // whatever the maximum.
        float most = -numerics::infinity;
        for (int j = t.lane(); j < high; j += warp_size) {
            most = j >= low && p[j] > most ? p[j] : most;
        }
        for (int half = warp_size / 2; half > 0; half /= 2) {
            const float other = t.shuffle_down(most, half);
            most = other > most ? other : most;
        }
        most = t.shuffle(most, 0);
        // Lanes are counted from the chunk's first position; what is not seen contributes +0.
        float lane = 0.0F;
        for (int j = t.lane(); j < chunk; j += warp_size) {
            const float weight = j >= low && j < high ? numerics::exp(p[j] - most) : 0.0F;
            p[j] = weight;
            lane = lane + weight;
        }
        lane = detail::fold_lanes(t, lane);
        if (t.lane() == 0) {
            float* ml = a.partial_ml + 2 * (slot(a, t.block_y(), vector) * a.chunks + t.block_x());
            ml[0] = most;
            ml[1] = lane;
        }
    }

    /// Element d of the weighted sum of values, for all vectors.
    template <class Thread>
    DFLASH_DEVICE static void gather_values(const Thread& t, const arguments& a, int start, int first_vector, int d,
                                            const int* low, const int* high, int lowest, int highest, const float* p) {
        const float* values = a.values + t.block_y() * a.values_head + std::int64_t{start} * a.head_dim + d;
        float chain[std::size_t{Tile}] = {};
        for (int j = lowest; j < highest; ++j) {
            const float value = values[std::int64_t{j} * a.head_dim];
            DFLASH_UNROLL
            for (int v = 0; v < Tile; ++v) {
                if (j >= low[v] && j < high[v]) {
                    chain[v] = numerics::fma(p[v * chunk + j], value, chain[v]);
                }
            }
        }
        for (int v = 0; v < Tile; ++v) {
            if (low[v] < high[v]) {
                a.partial_o[(slot(a, t.block_y(), first_vector + v) * a.chunks + t.block_x()) * a.head_dim + d] =
                    0.0F + chain[v];
            }
        }
    }

    /// Row-major over (row, head).
    [[nodiscard]] DFLASH_DEVICE static std::int64_t slot(const arguments& a, int kv_head, int vector) {
        const int group = a.heads / a.kv_heads;
        return std::int64_t{vector / group} * a.heads + std::int64_t{kv_head} * group + vector % group;
    }
};

/// Joins the chunks of one row and head. block_x: head, block_y: row.
struct join_chunks_kernel {
    static constexpr int max_threads = 256;
    using arguments = attention_arguments;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        constexpr int chunk = static_cast<int>(numerics::key_chunk);
        const key_range keys = a.seen(t.block_y());
        const std::int64_t slot = std::int64_t{t.block_y()} * a.heads + t.block_x();
        for (int d = t.thread(); d < a.head_dim; d += t.threads()) {
            float m = 0.0F;
            float l = 0.0F;
            float o = 0.0F;
            const auto first = static_cast<int>(keys.first / chunk);
            // The keys are an interval, so every chunk between its ends holds one.
            for (int c = first; index{c} * chunk < keys.last; ++c) {
                const float* ml = a.partial_ml + 2 * (slot * a.chunks + c);
                const float o_c = a.partial_o[(slot * a.chunks + c) * a.head_dim + d];
                if (c == first) {
                    m = ml[0];
                    l = ml[1];
                    o = o_c;
                    continue;
                }
                const float top = ml[0] > m ? ml[0] : m;
                const float old = numerics::exp(m - top);
                const float now = numerics::exp(ml[0] - top);
                o = numerics::fma(o, old, o_c * now);
                l = numerics::fma(l, old, ml[1] * now);
                m = top;
            }
            a.out[t.block_y() * a.out_stride + t.block_x() * a.head_dim + d] = numerics::divide(o, l);
        }
    }
};

}  // namespace cuda

DFLASH_END_NAMESPACE
