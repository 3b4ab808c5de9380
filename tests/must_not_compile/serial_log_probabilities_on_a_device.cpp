// Log-probabilities are made from rows the host can read: on a device's rows the recorder would stay empty.
// expect: observer: it cannot be called with const round_event<Space>& of the model's memory space
#include <dflash/cuda/exact.hpp>
#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/model/target_transformer.hpp>

#if defined(DFLASH_CONTROL)
using observer = dflash::no_observer;
#else
using observer = dflash::log_probability_recorder;
#endif
using decoder = dflash::serial_decoder<dflash::target_transformer<dflash::cuda::exact>, dflash::greedy,
                                       dflash::cuda::sample_and_match, observer>;

dflash::generation_result decode(decoder& d) {
    const dflash::token_id prompt[] = {1};
    return d.generate(prompt);
}
