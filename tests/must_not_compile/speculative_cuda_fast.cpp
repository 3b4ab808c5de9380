// A target on the fast CUDA tier is not lossless by default; a draft on it is no obstacle.
// expect: speculative_decoder: the model does not promise the same bits for one row and for a block
// expect: write allow_numeric_drift to accept that
#include <dflash/cuda/fast.hpp>
#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

namespace cuda = dflash::cuda;

using draft = dflash::draft_transformer<cuda::fast>;

template <class Target, dflash::determinism Required = dflash::determinism::batch_invariant>
using decoder =
    dflash::speculative_decoder<Target, dflash::dflash_drafter<draft, Target, dflash::no_observer, cuda::draft_choice>,
                                dflash::greedy, cuda::sample_and_match, dflash::fixed_block, dflash::no_observer,
                                Required>;

#if defined(DFLASH_CONTROL)
using fast_target = decoder<dflash::target_transformer<cuda::fast>, dflash::allow_numeric_drift>;
#else
using fast_target = decoder<dflash::target_transformer<cuda::fast>>;
#endif
using exact_target = decoder<dflash::target_transformer<cuda::exact>>;

dflash::generation_result speculate(fast_target& d, exact_target& e) {
    const dflash::token_id prompt[] = {1};
    static_cast<void>(e.generate(prompt));
    return d.generate(prompt);
}
