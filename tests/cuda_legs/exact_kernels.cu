// Every kernel of the exact backend: kernels.py finds out if one is missing.
#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "canary.cuh"

namespace dflash {

using target = target_transformer<cuda::exact>;
using draft = draft_transformer<cuda::exact>;
using drafter = dflash_drafter<draft, target, no_observer, cuda::draft_choice>;
using drawn = categorical<philox_noise>;

template class target_transformer<cuda::exact>;
template class draft_transformer<cuda::exact>;
template class dflash_drafter<draft, target, no_observer, cuda::draft_choice>;
template class serial_decoder<target, greedy, cuda::sample_and_match>;
template class speculative_decoder<target, drafter, greedy, cuda::sample_and_match>;
template class speculative_decoder<target, drafter, drawn, cuda::sample_and_match>;

}  // namespace dflash
