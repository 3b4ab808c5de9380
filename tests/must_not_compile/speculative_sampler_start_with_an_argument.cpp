// A start that wants an argument would never be called.
// expect: token_sampler: start must be callable with nothing
#include "doubles.hpp"

struct sampler {
    [[nodiscard]] dflash::token_id pick(std::span<const float> logits, dflash::index position) const;
    [[nodiscard]] sampler fork() const;
    void advance(dflash::token_id token);
#if defined(DFLASH_CONTROL)
    void start();
#else
    void start(dflash::index position);
#endif
};

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, sampler>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
