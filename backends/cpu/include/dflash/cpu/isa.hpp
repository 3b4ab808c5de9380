// Which instruction sets the exact backend has kernels for, and which of them this machine and this build can run.
//
// The choice changes speed only: every set gives the same bits.
#pragma once

#include <string_view>

#include <dflash/vocabulary.hpp>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

DFLASH_BEGIN_NAMESPACE

namespace cpu {

/// Instruction sets. `avx512_bf16` differs from `avx512` with activation_type::bf16 only. `native` is what the build
/// itself enables (-march=...), reached through xsimd.
enum class isa : std::uint8_t { automatic, scalar, avx2, avx512, avx512_bf16, neon, native };

[[nodiscard]] constexpr std::string_view name_of(isa set) noexcept {
    switch (set) {
        case isa::automatic: return "automatic";
        case isa::scalar: return "scalar";
        case isa::avx2: return "avx2";
        case isa::avx512: return "avx512";
        case isa::avx512_bf16: return "avx512_bf16";
        case isa::neon: return "neon";
        case isa::native: return "native";
    }
    return "?";
}

namespace detail {

#if defined(__x86_64__) || defined(__i386__)
/// Conversions between binary16 and binary32; not every compiler's __builtin_cpu_supports knows this name.
inline bool has_f16c() noexcept {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1U << 29U)) != 0;
}

inline bool has_avx2() noexcept {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
}

inline bool has_avx512() noexcept {
    __builtin_cpu_init();
    return has_avx2() && __builtin_cpu_supports("avx512f") != 0;
}

/// The dot product of bf16 pairs (vdpbf16ps), and what compilers take to come with it. Asked for by number, like F16C.
inline bool has_avx512_bf16() noexcept {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return has_avx512() && __builtin_cpu_supports("avx512bw") != 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
           (a & (1U << 5U)) != 0;
}
#endif

}  // namespace detail

}  // namespace cpu

DFLASH_END_NAMESPACE
