#include "walkthrough/rounds.hpp"

#include <dflash/decode/serial.hpp>
#include <dflash/numerics/argmax.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

using drafter_player = dflash_drafter<draft_player, target_player>;

generation_limits to_the_end() {
    generation_limits limits;
    limits.max_new_tokens = 24;
    limits.stop_tokens = {words::end};
    return limits;
}

/// Enters drafts, posterior and commitments of a round into the ledger.
struct bookkeeper {
    std::vector<ledger_row>* ledger;

    void operator()(const round_event<>& event) const {
        ledger_row row;
        row.round = static_cast<index>(ledger->size());
        row.drafts.assign(event.drafts.begin(), event.drafts.end());
        row.committed.assign(event.tokens.begin(), event.tokens.end());
        row.accepted = (std::min)(event.report.accepted, event.report.committed);
        for (index i = 0; i < event.logits.rows(); ++i) {
            row.posterior.push_back(
                static_cast<token_id>(numerics::argmax(event.logits.row(i).data(), event.logits.cols())));
        }
        ledger->push_back(std::move(row));
    }
};

}  // namespace

std::vector<token_id> all_rounds(classroom& room) {
    using decoder_player =
        speculative_decoder<target_player, drafter_player, greedy, acceptance_player, fixed_block, bookkeeper>;
    std::vector<ledger_row>& ledger = room.notes.ledger;
    drafter_player drafter(room.draft, room.target);
    decoder_player decoder(room.target, drafter, fixed_block(room.plot.block), {}, acceptance_player{&room.seen},
                           bookkeeper{&ledger});
    index draft_rows = 0;
    const auto close = [&] {
        drafter.project();  // features could wait for the next draft; the lesson shows rows where they belong
        ledger_row& row = ledger.back();
        row.total = decoder.account().committed();
        row.anchor = decoder.account().tokens().back();
        row.start = row.total - 1;
        row.target_rows = decoder.cache().length();
        row.draft_rows = drafter.context_length();
        row.fresh_rows = row.draft_rows - draft_rows;
        draft_rows = row.draft_rows;
    };
    try {
        decoder.prime(room.plot.prompt, to_the_end());
        close();
        while (!decoder.step().empty()) {
            close();
        }
    } catch (const error& failure) {  // a mistake may go so far that the library refuses
        room.notes.stopped = failure.what();
        if (!ledger.empty() && ledger.back().total == 0) {
            close();
        }
    }
    return decoder.result().tokens;
}

std::vector<token_id> serial_tokens(classroom& room) {
    serial_decoder<target_player> decoder(room.target);
    return decoder.generate(room.plot.prompt, to_the_end()).tokens;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
