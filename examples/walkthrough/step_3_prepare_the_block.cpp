#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-3]
// block = [ anchor, MASK, MASK, MASK ]     at positions 3 .. 6; the anchor is the token that was just chosen
// H = E[block]                             rows of the target's own embedding: the draft has none
void step_3_prepare_the_block(classroom& room) {
    page out = room.open(3, "Prepare the block",
                         {"block = [ anchor, MASK, MASK, MASK ]   at positions 3 4 5 6",
                          "H = E[block]   rows of the target's embedding table; the draft has none of its own"});
    // [step-3-run]
    room.block.assign(static_cast<std::size_t>(room.plot.block), room.draft.shape().mask_token);
    room.block[0] = room.first;
    room.embeddings = matrix(room.plot.block, room.target.hidden_size());

    room.target.embed(room.block, room.embeddings.view());
    // [/step-3-run]

    out.show("H", room.embeddings.view(), room.places(room.plot.start, room.block));

    bool masks = true;
    for (index i = 1; i < room.plot.block; ++i) {
        for (index c = 0; c < room.embeddings.cols; ++c) {
            masks =
                masks && room.embeddings.view()(i, c) == room.actors->target_tensors.embedding.element(words::mask, c);
        }
    }
    out.expect("slots-hold-masks", masks, "Slots 1 2 3 hold the embedding of MASK: nothing is known there yet.");
    out.remark("The three MASK rows are equal. Only their positions will tell them apart.");
}
// [/step-3]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
