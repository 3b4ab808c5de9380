#include <dflash/numerics/argmax.hpp>

#include "walkthrough/checks.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-5]
// logits = head(norm(h)_4 .. norm(h)_6)      the target's head over slots 1 2 3; slot 0 is dropped, its token is known
// draft_i = argmax logits_i                  all three at once: no slot waits for another
void step_5_draft(classroom& room) {
    page out = room.open(5, "Logits of three slots, three drafts",
                         {"logits = head(norm(h)) of slots 1 2 3   the target's head; slot 0 is dropped, it is known",
                          "draft_i = argmax logits_i               all at once: no slot waits for another"});
    const index slots = room.plot.block - 1;
    const matrix& last = room.seen.read("draft.hidden", room.draft.shape().layers - 1);
    matrix logits(slots, room.target.vocab_size());
    matrix on_paper(slots, room.target.vocab_size());
    const std::vector<std::string> all = room.places(room.plot.start, room.block);
    const std::vector<std::string> places(all.begin() + 1, all.end());

    // [step-5-run]
    room.target.head(room.hidden.view().rows(1, slots), logits.view());
    // [/step-5-run]

    out.show("h after the last layer", last.view(), all);
    if (room.actors->on_paper) {
        room.target.head(last.view().rows(1, slots), on_paper.view());
        out.show("head(h) before the norm", on_paper.view(), places, room.notes.words);
    }
    out.show("draft_logits", logits.view(), places, room.notes.words, true);

    bool norm_only_scales = true;
    for (index i = 0; i < slots; ++i) {
        const index best = numerics::argmax(logits.view().row(i).data(), logits.cols);
        room.block[static_cast<std::size_t>(1 + i)] = static_cast<token_id>(best);
        norm_only_scales = norm_only_scales && best == numerics::argmax(on_paper.view().row(i).data(), logits.cols);
    }
    const std::vector<token_id> drafts(room.block.begin() + 1, room.block.end());
    out.remark("drafts: \"", room.word(drafts[0]), "\" \"", room.word(drafts[1]), "\" \"", room.word(drafts[2]), "\"");
    out.expect("slot-0-is-dropped", output_rows_are_in_place(room),
               "The rows that the head sees are those of slots 1 2 3: slot i guesses position 3 + i.");
    out.expect("drafts-of-the-story", drafts == room.plot.drafts, "The drafts are \"the\", \"mat\", \".\".");
    if (room.actors->on_paper) {
        out.expect("the-norm-only-scales", norm_only_scales,
                   "A norm with weights 1 scales a row: the best word can be read off the row before it.");
    }
}
// [/step-5]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
