// Splitting work over threads. Threads own disjoint items, so the split never shows in a result.
//
// Without OpenMP, or for work too small to be worth waking threads, everything runs on the calling thread.
#pragma once

#include <algorithm>

#include <dflash/numerics/fp_environment.hpp>
#include <dflash/vocabulary.hpp>

#if defined(_OPENMP)
#include <omp.h>
#endif

DFLASH_BEGIN_NAMESPACE

namespace cpu {

/// How many threads the OpenMP runtime would use; 1 without OpenMP.
[[nodiscard]] inline int available_threads() noexcept {
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/// Multiply-adds (or operations of like cost) below which starting threads costs more than it saves.
inline constexpr index parallel_threshold = index{1} << 17;

/// Calls body(first, last, thread) for pieces that cover 0 .. items - 1, each on one thread of at most `threads`.
/// Pieces start at multiples of `grain`. `work`: the cost of all items together, in multiply-adds.
template <class Body>
void parallel_for(int threads, index items, index grain, index work, const Body& body) {
    const index pieces = (items + grain - 1) / grain;
    const int used = static_cast<int>((std::min)(static_cast<index>(threads), pieces));
#if defined(_OPENMP)
    if (used > 1 && work >= parallel_threshold) {
#pragma omp parallel num_threads(used)
        {
            const numerics::fp_environment environment;
            const int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1) nowait
            for (index piece = 0; piece < pieces; ++piece) {
                body(piece * grain, (std::min)((piece + 1) * grain, items), thread);
            }
        }
        return;
    }
#else
    static_cast<void>(used);
    static_cast<void>(work);
#endif
    if (items > 0) {
        const numerics::fp_environment environment;
        body(index{0}, items, 0);
    }
}

}  // namespace cpu

DFLASH_END_NAMESPACE
