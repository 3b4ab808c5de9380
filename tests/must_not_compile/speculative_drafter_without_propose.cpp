// A drafter must propose.
// expect: drafter: propose(const draft_request&, draft_output<space>&) must write at most block - 1 ids
#include "doubles.hpp"

#if defined(DFLASH_CONTROL)
using drafter = doubles::drafter;
#else
using drafter = doubles::drafter_without_propose;
#endif

using decoder = dflash::speculative_decoder<doubles::model<>, drafter>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
