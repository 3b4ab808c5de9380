#include "walkthrough/checks.hpp"
#include "walkthrough/rounds.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-7]
// start = 3 + accepted + 1, cache.crop(start)       the newest token is the next anchor; it is not cached yet
// features of positions 3 .. start - 1 go to the draft: its rows of accepted tokens are made of them, not of the block
void step_7_commit_and_go_on(classroom& room) {
    page out = room.open(7, "Commit, crop, and the rounds after",
                         {"start = 3 + accepted + 1, target cache cropped to 0 .. start - 1; \"in\" is the next anchor",
                          "features of the committed rows go to the draft; the block's own K and V never stay"});
    // [step-7-run]
    const index kept = room.outcome.accepted + 1;
    const index start = room.plot.start + kept;

    room.target_rows.crop(start);
    room.draft.inject(room.verify_raw.view().rows(0, kept), room.draft_rows);
    // [/step-7-run]

    const std::vector<token_id> spoken_so_far = {words::The, words::cat, words::sat, words::on, words::the, words::mat};
    const std::vector<token_id> anchor = {words::in};
    matrix next(1, room.target.vocab_size());
    room.target.forward(anchor, room.target_rows, {next.view(), {}});
    const index anchor_at = room.target_rows.length() - 1;
    room.target_rows.crop(anchor_at);
    out.show("law of position 7", next.view(), room.places(start, anchor), room.notes.words);

    out.show(kept_keys(room, std::span<const token_id>(room.block).first(static_cast<std::size_t>(kept))));

    const bool in_features = kept_rows_come_from_features(room);
    const std::vector<token_id> spoken = all_rounds(room);  // the same by the library's loop, to the end
    const std::vector<ledger_row>& ledger = room.notes.ledger;
    bool j = room.notes.stopped.empty();
    bool fresh = j;
    for (const ledger_row& r : ledger) {
        j = j && r.target_rows == r.total - 1 && r.draft_rows == r.total - 1 && r.start == r.total - 1;
        fresh = fresh && (r.round == 0 || r.fresh_rows == size_of(std::span(r.committed)));
    }
    const bool first = ledger.size() > 1 && ledger[1].drafts == room.plot.drafts && ledger[1].accepted == 2 &&
                       ledger[1].start == 6 && ledger[1].target_rows == 6 && ledger[1].draft_rows == 6;
    out.expect("the-next-block-starts-at-6", start == 6 && room.outcome.next == words::in,
               "start = 3 + 2 + 1 = 6: \"in\" stands at position 6 and is the next anchor.");
    out.expect("target-cache-is-0-to-5", anchor_at == 6,
               "The target's cache holds positions 0 .. 5: the anchor is not cached before it has been a row.");
    out.expect("the-crop-forgets", same(next.values, verify(room, spoken_so_far, anchor, true).values),
               "Behind the crop the row of \"in\" has the bits of a run that never saw \".\".");
    out.expect("draft-cache-is-0-to-5", room.draft_rows.length() == 6,
               "The draft's cache holds positions 0 .. 5: exactly the committed rows were handed over.");
    out.expect("kept-rows-come-from-the-target", in_features,
               "The draft's keys of positions 3 4 5 are made of the target's features, not kept from the block.");
    out.expect("the-loop-agrees", first, "speculative_decoder's first round is the one walked through here.");
    out.expect("cache-is-committed-minus-one", j, "After every round: target rows = draft rows = committed - 1.");
    out.expect("fresh-rows-are-the-committed", fresh, "Every round hands over as many feature rows as it commits.");
    out.expect("lossless", spoken == room.plot.continuation && spoken == serial_tokens(room),
               "The words are those of plain decoding, one token a forward.");
}
// [/step-7]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
