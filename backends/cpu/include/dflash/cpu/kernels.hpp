// The kernels of the exact backend: one body, compiled once per instruction set, and the table chosen at run time.
//
// The body lies in kernels/*.inl and is included here inside a target region and a namespace for each set, so that a
// program built for a generic machine reaches the speed of the machine it runs on. No kernel starts threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <dflash/concepts/attention.hpp>
#include <dflash/cpu/interleave.hpp>
#include <dflash/cpu/isa.hpp>
#include <dflash/numerics/attention.hpp>
#include <dflash/numerics/convert.hpp>
#include <dflash/numerics/dot.hpp>
#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/sum.hpp>
#include <dflash/vocabulary.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
// Builds that enable fused multiply-add in registers get one more set of kernels, for exactly what they enable.
#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__)) || defined(__aarch64__)
#define DFLASH_CPU_NATIVE 1
#include <xsimd/xsimd.hpp>
#endif

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

/// Tiles of query vectors that share a pass over the cache.
inline constexpr index max_tiles_per_item = 4;

/// Columns of one item of an elementwise operation.
inline constexpr index column_block = 2048;

struct linear_job {
    const void* weights;  // panels of 16 outputs: (k, 16) floats, or (k/2, 16) words of two 16-bit elements
    dtype type;
    const float* bias;  // padded to whole panels, or null
    const float* x;     // chunks of 128 elements, each: tiles of rows, each (128, rows of the tile)
    index x_chunk_stride;
    float* y;  // (rows, n)
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

/// The kernels of one instruction set. Each does the items first .. last - 1 of its job.
struct kernel_table {
    void (*linear)(const linear_job&, index first_panel, index last_panel);
    void (*rms_norm)(const norm_job&, index first, index last);
    void (*rope)(const rope_job&, index first, index last);
    void (*silu_mul)(const silu_job&, index first, index last);
    void (*add)(const add_job&, index first, index last);
    void (*attend)(const attend_job&, index first, index last, float* scratch);
    index max_group;                    ///< pieces of a linear job should be multiples of this
    index tile_rows;                    ///< query vectors of an attend item
    index (*tile_for)(index) noexcept;  ///< rows of the tile that takes so many remaining rows
};

/// Floats of scratch that one thread needs for attend.
[[nodiscard]] constexpr index attend_scratch(index head_dim, index tile_rows) noexcept {
    const index padded = (head_dim + numerics::dot_chunk - 1) / numerics::dot_chunk * numerics::dot_chunk;
    return 3 * max_tiles_per_item * tile_rows * padded;
}

}  // namespace detail

}  // namespace cpu

DFLASH_END_NAMESPACE

#if defined(__clang__)
#define DFLASH_CPU_UNROLL _Pragma("unroll")
#else
#define DFLASH_CPU_UNROLL _Pragma("GCC unroll 16")
#endif
#define DFLASH_CPU_INLINE __attribute__((always_inline)) inline

// ---- scalar: any machine -------------------------------------------------------------------------------------------
DFLASH_BEGIN_NAMESPACE
namespace cpu::detail::scalar {
#include <dflash/cpu/kernels/lanes_scalar.inl>

#include <dflash/cpu/kernels/body.inl>
}  // namespace cpu::detail::scalar
DFLASH_END_NAMESPACE

#if defined(__x86_64__)

// ---- AVX2 with FMA and F16C ----------------------------------------------------------------------------------------
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
DFLASH_BEGIN_NAMESPACE
namespace cpu::detail::avx2 {
#include <dflash/cpu/kernels/lanes_avx2.inl>

#include <dflash/cpu/kernels/body.inl>
}  // namespace cpu::detail::avx2
DFLASH_END_NAMESPACE
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

// ---- AVX-512 -------------------------------------------------------------------------------------------------------
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f")
#pragma GCC diagnostic push
// The compiler's own AVX-512 header starts results from undefined registers and passes masks with the wrong sign.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
DFLASH_BEGIN_NAMESPACE
namespace cpu::detail::avx512 {
#include <dflash/cpu/kernels/lanes_avx512.inl>

#include <dflash/cpu/kernels/body.inl>
}  // namespace cpu::detail::avx512
DFLASH_END_NAMESPACE
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif

#endif  // __x86_64__

#if defined(__aarch64__)

// ---- NEON: every AArch64 machine ---------------------------------------------------------------------------------
DFLASH_BEGIN_NAMESPACE
namespace cpu::detail::neon {
#include <dflash/cpu/kernels/lanes_neon.inl>

#include <dflash/cpu/kernels/body.inl>
}  // namespace cpu::detail::neon
DFLASH_END_NAMESPACE

#endif  // __aarch64__

#if defined(DFLASH_CPU_NATIVE)

// ---- native: what the build enables, through xsimd -----------------------------------------------------------------
DFLASH_BEGIN_NAMESPACE
namespace cpu::detail::native {
#include <dflash/cpu/kernels/lanes_native.inl>

#include <dflash/cpu/kernels/body.inl>
}  // namespace cpu::detail::native
DFLASH_END_NAMESPACE

#endif  // DFLASH_CPU_NATIVE

#undef DFLASH_CPU_UNROLL
#undef DFLASH_CPU_INLINE

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

/// The kernels for a set, or null when this build has none or this machine cannot run them.
inline const kernel_table* find_kernels(isa set) noexcept {
    switch (set) {
        case isa::scalar: return &scalar::table;
#if defined(__x86_64__)
        case isa::avx2: return has_avx2() ? &avx2::table : nullptr;
        case isa::avx512: return has_avx512() ? &avx512::table : nullptr;
#endif
#if defined(__aarch64__)
        case isa::neon: return &neon::table;
#endif
#if defined(DFLASH_CPU_NATIVE)
        case isa::native: return &native::table;
#endif
        default: return nullptr;
    }
}

/// The fastest set this machine can run. Asked once per program.
inline isa best_isa() noexcept {
    static const isa best = [] {
        for (const isa set : {isa::avx512, isa::avx2, isa::neon, isa::native}) {
            if (find_kernels(set) != nullptr) {
                return set;
            }
        }
        return isa::scalar;
    }();
    return best;
}

}  // namespace detail

/// Whether kernels for the set exist in this build and run on this machine.
[[nodiscard]] inline bool available(isa set) noexcept {
    return set == isa::automatic || detail::find_kernels(set) != nullptr;
}

}  // namespace cpu

DFLASH_END_NAMESPACE

#undef DFLASH_CPU_NATIVE
