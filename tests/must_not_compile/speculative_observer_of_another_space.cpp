// An observer that cannot be called with the decoder's rounds would record nothing, and say nothing of it.
// expect: observer: it cannot be called with const round_event<Space>& of the model's memory space
#include "doubles.hpp"

struct elsewhere {};

struct observer {
#if defined(DFLASH_CONTROL)
    void operator()(const dflash::round_event<>& round) const;
#else
    void operator()(const dflash::round_event<elsewhere>& round) const;
#endif
};

using decoder = dflash::speculative_decoder<doubles::model<>, doubles::drafter, dflash::greedy,
                                            dflash::sample_and_match, dflash::fixed_block, observer>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
