// Rejection sampling needs the target's law; a sampler that only picks is refused.
// expect: acceptance_rule: accept(const accept_call<Space>&, Sampler&) const must return a verdict
#include "doubles.hpp"

#include <dflash/decode/rejection_sampling.hpp>

struct sampler {
    [[nodiscard]] dflash::token_id pick(std::span<const float> logits, dflash::index position) const;
#if defined(DFLASH_CONTROL)
    [[nodiscard]] bool scores(std::span<const float> logits, std::span<float> out) const;
#endif
};

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, sampler, dflash::rejection_sampling<>>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
