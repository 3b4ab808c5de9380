// A sampler that returns another integer type would convert silently.
// expect: token_sampler: pick(std::span<const float> logits, index position) const must return a token_id
#include "doubles.hpp"

#if defined(DFLASH_CONTROL)
using id = dflash::token_id;
#else
using id = dflash::index;
#endif

struct sampler {
    [[nodiscard]] id pick(std::span<const float> logits, dflash::index position) const;
};

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, sampler>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
