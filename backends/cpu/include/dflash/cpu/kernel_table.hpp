// What a kernel is given and the table that holds the kernels of one instruction set.
#pragma once

#include <dflash/concepts/attention.hpp>
#include <dflash/cpu/isa.hpp>
#include <dflash/numerics/dot.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

/// Tiles of query vectors that share a pass over the cache.
inline constexpr index max_tiles_per_item = 4;

/// Rows of the largest tile of any kernel.
inline constexpr index max_tile_rows = 16;

/// Columns of one item of an elementwise operation.
inline constexpr index column_block = 2048;

struct linear_job {
    const void* weights;  // panels of 16 outputs: (k, 16) floats, or (k/2, 16) words of two 16-bit elements
    dtype type;
    const float* bias;  // padded to whole panels, or null
    // Chunks of 128 elements, each: tiles of rows, each (128, rows of the tile) floats, or (64, rows of the tile) words
    // of two bf16, the first in the high half, for a dot kernel.
    const void* x;
    index x_chunk_stride;  // floats or words
    float* y;              // (rows, n)
    index y_stride;
    index rows;
    index k;
    index n;
};

struct norm_job {
    const float* x;  // (rows, heads * n)
    index x_stride;
    const float* weight;  // (n)
    float eps;
    float* y;
    index y_stride;
    index heads;
    index n;
};

struct rope_job {
    float* x;  // (rows, heads * head_dim)
    index x_stride;
    const float* cos;  // (rows, head_dim/2)
    const float* sin;
    index heads;
    index head_dim;
};

struct silu_job {
    const float* gate_up;  // (rows, 2n)
    index gate_up_stride;
    float* y;  // (rows, n)
    index y_stride;
    index n;
    index blocks;
};

struct add_job {
    float* h;  // (rows, n)
    index h_stride;
    const float* o;
    index o_stride;
    index n;
    index blocks;
};

struct attend_job {
    const float* q;  // (rows, h*e)
    index q_stride;
    const float* keys;    // (g, panels, e, 16)
    const float* values;  // (g, positions, e)
    index head_stride;    // floats from one KV head to the next
    float* out;           // (rows, h*e)
    index out_stride;
    index rows;
    index heads;
    index kv_heads;
    index head_dim;
    index length;
    index position;
    mask_rule mask;
    float scale;
    index tiles_per_item;  // 1 .. max_tiles_per_item
};

/// A kernel for linear jobs.
struct linear_kernel {
    void (*run)(const linear_job&, index first_panel, index last_panel);
    index max_group;                    ///< pieces of a job should be multiples of this
    index tile_rows;                    ///< rows of a full tile
    index (*tile_for)(index) noexcept;  ///< rows of the tile that takes so many remaining rows
};

/// The kernels of one instruction set. Each does the items first .. last - 1 of its job.
struct kernel_table {
    linear_kernel linear;             ///< job.x: floats
    linear_kernel dot;                ///< bf16 weights, job.x: words; no run where the set has no such instruction
    bool (*dot_is_chain)() noexcept;  ///< whether the instruction of this machine does what dot needs; null without
    void (*rms_norm)(const norm_job&, index first, index last);
    void (*rope)(const rope_job&, index first, index last);
    void (*silu_mul)(const silu_job&, index first, index last);
    void (*add)(const add_job&, index first, index last);
    void (*attend)(const attend_job&, index first, index last, float* scratch);
    index tile_rows;  ///< query vectors of an attend item
};

/// Floats of scratch that one thread needs for attend.
[[nodiscard]] constexpr index attend_scratch(index head_dim, index tile_rows) noexcept {
    const index padded = (head_dim + numerics::dot_chunk - 1) / numerics::dot_chunk * numerics::dot_chunk;
    return 3 * max_tiles_per_item * tile_rows * padded;
}

}  // namespace detail

}  // namespace cpu

DFLASH_END_NAMESPACE
