// Which kernels there are and which are used.
//
// By default the kernels are compiled into every file that includes this, as in any header-only library. A program of
// many files can compile them once instead: define DFLASH_CPU_SEPARATE_KERNELS for all of them and include
// <dflash/cpu/kernel_sets.hpp> in exactly one.
#pragma once

#include <dflash/cpu/isa.hpp>
#include <dflash/cpu/kernel_table.hpp>
#include <dflash/vocabulary.hpp>

#if !defined(DFLASH_CPU_SEPARATE_KERNELS)
#include <dflash/cpu/kernel_sets.hpp>
#endif

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

#if defined(DFLASH_CPU_SEPARATE_KERNELS)
const kernel_table* find_kernels(isa set) noexcept;
#endif

/// The fastest set this machine can run. Asked once per program.
inline isa best_isa() noexcept {
    static const isa best = [] {
        for (const isa set : {isa::avx512_bf16, isa::avx512, isa::avx2, isa::neon, isa::native}) {
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
