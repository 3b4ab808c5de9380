// Whole generations by the library's own loops, on the same pair, with a ledger.
#pragma once

#include <vector>

#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// speculative_decoder to the end token, one ledger row after prefill and after every round. Returns what it said.
std::vector<token_id> all_rounds(classroom& room);

/// serial_decoder on the same target: what plain decoding says.
[[nodiscard]] std::vector<token_id> serial_tokens(classroom& room);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
