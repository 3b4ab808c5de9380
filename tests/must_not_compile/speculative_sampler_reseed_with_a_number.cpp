// A reseed that does not take a noise_key would never be called: every key would give the same text.
// expect: token_sampler: reseed must be callable with a noise_key
#include "doubles.hpp"

struct sampler {
    [[nodiscard]] dflash::token_id pick(std::span<const float> logits, dflash::index position) const;
#if defined(DFLASH_CONTROL)
    void reseed(const dflash::noise_key& key);
#else
    void reseed(std::uint64_t seed);
#endif
};

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, sampler>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
