// A target that promises less than the same bits for one row and for a block is not lossless by default.
// expect: speculative_decoder: the model does not promise the same bits for one row and for a block
// expect: write allow_numeric_drift to accept that
#include "doubles.hpp"

using model = doubles::model<doubles::cache, dflash::determinism::run_to_run>;

#if defined(DFLASH_CONTROL)
using decoder = dflash::speculative_decoder<model, doubles::drafter, dflash::greedy, dflash::sample_and_match,
                                            dflash::fixed_block, dflash::no_observer, dflash::allow_numeric_drift>;
#else
using decoder = dflash::speculative_decoder<model, doubles::drafter>;
#endif

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
