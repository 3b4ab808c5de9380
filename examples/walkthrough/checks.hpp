// The longer comparisons behind some sentences: what went by, beside the scalar specification of the library.
#pragma once

#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// ---- step 4
/// Rows 0 .. 2 of K and V of every layer are rope(k_norm(W_K C)) and W_V C.
[[nodiscard]] bool context_rows_come_from_c(const classroom& room);
/// Rows 3 .. 6 of layer 0 are rope(k_norm(W_K norm(H))) and W_V norm(H), with the same W_K and W_V.
[[nodiscard]] bool block_rows_come_from_h(const classroom& room);
/// Query row i is q turned to position `first` + i.
[[nodiscard]] bool queries_stand_from(const classroom& room, index first);
/// q'_5 . k'_2 is q_5, turned by the distance 3, times k_2: both taken before rotation.
[[nodiscard]] bool score_depends_on_distance(const classroom& room);
/// Every query gives every one of 7 keys a weight, and the weights of a query sum to 1.
[[nodiscard]] bool every_slot_sees_everything(const classroom& room);
/// Every weight of every query is a fraction with a denominator below 29.
[[nodiscard]] bool weights_are_fractions(const classroom& room);

// ---- step 5
/// Output row i is the normed row i of the last layer, for every slot.
[[nodiscard]] bool output_rows_are_in_place(const classroom& room);

// ---- step 6
/// Logits of `block` behind the prompt on a cache of its own, in one forward or in forwards of one row.
[[nodiscard]] matrix verify(classroom& room, std::span<const token_id> prompt, std::span<const token_id> block,
                            bool one_by_one);

// ---- step 7
/// The draft's cached keys of layer 0 at positions 3 and on: (g, rows, e).
[[nodiscard]] table kept_keys(const classroom& room, std::span<const token_id> kept);
/// The draft's cached rows from position 3 on are made of the target's features of these positions.
[[nodiscard]] bool kept_rows_come_from_features(const classroom& room);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
