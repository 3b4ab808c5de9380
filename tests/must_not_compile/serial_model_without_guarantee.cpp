// A model that does not say what can be relied on is refused with a sentence, in serial decoding as well.
// expect: target_model: state what can be relied on, static constexpr determinism guarantee = ...
#include <dflash/decode/serial.hpp>

#include "doubles.hpp"

struct model : doubles::model<> {
#if !defined(DFLASH_CONTROL)
private:
    using doubles::model<>::guarantee;
#endif
};

dflash::generation_result decode(dflash::serial_decoder<model>& d) {
    return doubles::run(d);
}
