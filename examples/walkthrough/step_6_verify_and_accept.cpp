#include <dflash/sampling/greedy.hpp>

#include "walkthrough/checks.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-6]
// posterior_i = argmax target([ on, the, mat, . ])_i       one forward of 4 rows; row i is the law of position 4 + i
// accepted = sum(cumprod(draft_i == posterior_i))          then one token of the target's own
void step_6_verify_and_accept(classroom& room) {
    page out = room.open(6, "Verify in one forward, accept a prefix",
                         {"posterior_i = argmax target([on, the, mat, .])_i   row i is the law of position 4 + i",
                          "accepted = sum(cumprod(draft_i == posterior_i)), then one token of the target's own"});
    // [step-6-run]
    room.verify_logits = matrix(room.plot.block, room.target.vocab_size());
    room.verify_raw = matrix(room.plot.block, room.target.feature_size());
    const std::span<const token_id> drafts = std::span<const token_id>(room.block).subspan(1);

    room.target.forward(room.block, room.target_rows, {room.verify_logits.view(), room.verify_raw.view()});
    room.outcome = acceptance_player{&room.seen}.accept(
        {.drafts = drafts, .logits = room.verify_logits.view(), .draft_law = {}, .position = 4, .noise = {}}, greedy{});
    // [/step-6-run]

    out.show("verify logits", room.verify_logits.view(), room.places(room.plot.start, room.block), room.notes.words);
    room.posterior.clear();
    for (index i = 0; i < room.plot.block; ++i) {
        room.posterior.push_back(greedy{}.pick(room.verify_logits.view().row(i), 4 + i));
        const token_id draft = i + 1 < room.plot.block ? drafts[static_cast<std::size_t>(i)] : -1;
        const bool match = draft == room.posterior.back();
        out.remark("row of \"", room.word(room.block[static_cast<std::size_t>(i)]), "\" says position ", 4 + i,
                   " is \"", room.word(room.posterior.back()), "\"",
                   draft < 0 ? "" : joined(", the draft is \"", room.word(draft), match ? "\"  =" : "\"  x"));
    }
    out.remark("accepted ", room.outcome.accepted, ", then the target's own \"", room.word(room.outcome.next), "\"");

    std::vector<token_id> other = room.block;
    other.back() = words::ran;
    const matrix four = verify(room, room.plot.prompt, room.block, true);
    const matrix changed = verify(room, room.plot.prompt, other, false);
    const auto left = static_cast<std::size_t>(3 * four.cols);
    const bool answers = std::equal(room.plot.posterior.begin(), room.plot.posterior.end(), room.posterior.begin());
    out.expect("two-are-accepted", answers && room.outcome.accepted == 2 && room.outcome.next == words::in,
               "The row of the anchor verifies the first draft: 2 are accepted, the correction is \"in\".");
    out.expect("one-pass-equals-four",
               same(room.verify_logits.values, four.values) &&
                   same(changed.values, verify(room, room.plot.prompt, other, true).values),
               "One forward of 4 rows has the bits of 4 forwards of 1 row, whatever was drafted.");
    out.expect("nothing-comes-from-the-right",
               same(std::span(room.verify_logits.values).first(left), std::span(changed.values).first(left)),
               "With another last draft the rows before it keep every bit: no error travels to the left.");
}
// [/step-6]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
