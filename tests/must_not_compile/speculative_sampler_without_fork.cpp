// A sampler that wants to hear of tokens but cannot be forked would never hear of any.
// expect: sequence_sampler: a sampler with advance(token) needs fork() const, which returns one of its type
#include "doubles.hpp"

struct sampler {
    [[nodiscard]] dflash::token_id pick(std::span<const float> logits, dflash::index position) const;
    void advance(dflash::token_id token);
#if defined(DFLASH_CONTROL)
    [[nodiscard]] sampler fork() const;
#endif
};

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, sampler>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
