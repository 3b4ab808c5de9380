// An acceptance rule that is lossy must be asked for by name.
// expect: speculative_decoder: the acceptance rule is lossy; write allow_numeric_drift to accept that
#include "doubles.hpp"

struct lossy {
    static constexpr bool lossless = false;
    [[nodiscard]] dflash::verdict accept(const dflash::accept_call<>& call, const dflash::greedy& sampler) const;
};

#if defined(DFLASH_CONTROL)
inline constexpr auto required = dflash::allow_numeric_drift;
#else
inline constexpr auto required = dflash::determinism::batch_invariant;
#endif

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, dflash::greedy, lossy,
                                            dflash::fixed_block, dflash::no_observer, required>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
