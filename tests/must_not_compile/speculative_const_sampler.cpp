// A const sampler with history could not be told of any token, and would be asked as if it had none.
// expect: token_sampler: name the sampler's type without const
#include "doubles.hpp"

struct sampler {
    [[nodiscard]] dflash::token_id pick(std::span<const float> logits, dflash::index position) const;
    [[nodiscard]] sampler fork() const;
    void advance(dflash::token_id token);
};

#if defined(DFLASH_CONTROL)
using named = sampler;
#else
using named = const sampler;
#endif

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, named>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
