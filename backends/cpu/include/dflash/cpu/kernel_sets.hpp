// The kernels themselves: one body, compiled once per instruction set.
//
// The body lies in kernels/*.inl and is included here inside a target region and a namespace for each set, so that a
// program built for a generic machine reaches the speed of the machine it runs on. No kernel starts threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <dflash/concepts/attention.hpp>
#include <dflash/cpu/dot_check.hpp>
#include <dflash/cpu/interleave.hpp>
#include <dflash/cpu/isa.hpp>
#include <dflash/cpu/kernel_table.hpp>
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

// ---- AVX-512 with BF16: the kernels above, and products through the bf16 dot instruction
// ---------------------------------
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512bf16")
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
DFLASH_BEGIN_NAMESPACE
namespace cpu::detail::avx512_bf16 {
#include <dflash/cpu/kernels/lanes_avx512_bf16.inl>

#include <dflash/cpu/kernels/linear.inl>

#include <dflash/cpu/kernels/dot.inl>

inline constexpr kernel_table table = with_dot(avx512::table);
}  // namespace cpu::detail::avx512_bf16
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

// Separate kernels are compiled in the one file that includes this header, and called from the others.
#if defined(DFLASH_CPU_SEPARATE_KERNELS)
#define DFLASH_CPU_LINKAGE
#else
#define DFLASH_CPU_LINKAGE inline
#endif

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

/// The kernels for a set, or null when this build has none or this machine cannot run them.
DFLASH_CPU_LINKAGE const kernel_table* find_kernels(isa set) noexcept {
    switch (set) {
        case isa::scalar: return &scalar::table;
#if defined(__x86_64__)
        case isa::avx2: return has_avx2() ? &avx2::table : nullptr;
        case isa::avx512: return has_avx512() ? &avx512::table : nullptr;
        case isa::avx512_bf16: return has_avx512_bf16() ? &avx512_bf16::table : nullptr;
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

}  // namespace detail

}  // namespace cpu

DFLASH_END_NAMESPACE

#undef DFLASH_CPU_LINKAGE
#undef DFLASH_CPU_NATIVE
