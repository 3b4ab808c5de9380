// Recurrent state cannot be truncated: its cache offers no crop, and the decoder says what that means.
// expect: kv_cache: crop(n) must forget every position from n on
// expect: a cache that cannot be truncated (recurrent state) cannot be used for speculative decoding
#include "doubles.hpp"

struct recurrent_state {
    [[nodiscard]] dflash::index length() const;
    [[nodiscard]] dflash::index capacity() const;
#if defined(DFLASH_CONTROL)
    void crop(dflash::index n);  // restores a snapshot
#endif
};

using decoder = dflash::speculative_decoder<doubles::model<recurrent_state>, doubles::drafter>;

dflash::generation_result speculate(decoder& d) {
    return doubles::run(d);
}
