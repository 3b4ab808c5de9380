#include <dflash/sampling/greedy.hpp>

#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-1]
// raw_i = [ h^(a)_i ; h^(b)_i ; h^(c)_i ]      rows of the tapped layers a/b/c side by side, for every prompt position
// i law of position 3 = head(norm(h_2))          the last prompt row chooses the first token
void step_1_prefill(classroom& room) {
    const std::vector<index>& taps = room.actors->draft.taps;
    const std::string raw = joined("raw_i = [ h(", taps[0], ")_i ; h(", taps[1], ")_i ; h(", taps[2], ")_i ]");
    page out = room.open(1, "Prefill: hidden states out of the target",
                         {joined(raw, "   tapped layers side by side, for every position i"),
                          "first token = argmax head(norm(h_2))   the row of \"sat\" is the law of position 3"});
    const target_shape& shape = room.target.shape();
    // [step-1-run]
    room.raw = matrix(3, room.target.feature_size());
    matrix logits(1, room.target.vocab_size());

    room.target.forward(room.plot.prompt, room.target_rows, {logits.view(), room.raw.view()});
    room.first = greedy{}.pick(logits.view().row(0), room.plot.start);
    // [/step-1-run]

    const std::vector<std::string> places = room.places(0, room.plot.prompt);
    out.show("target_hidden_raw", room.raw.view(), places);
    out.show("first token's logits", logits.view(), {places.back()}, room.notes.words);

    const index d = shape.hidden_size;
    // [step-1-taps]
    bool between = true;
    for (std::size_t t = 0; t + 1 < taps.size(); ++t) {
        const matrix_view<const float> tapped = room.raw.view().columns(static_cast<index>(t) * d, d);
        const matrix& hidden = room.seen.read("target.hidden", taps[t]);
        for (index r = 0; r < 3; ++r) {
            between = between && same(tapped.row(r), hidden.view().row(r));
        }
    }
    out.expect("taps-count-from-0", between, "Tap ", taps[0], " is the row after layer ", taps[0],
               " counted from 0: hidden_states[", taps[0] + 1, "] of the tuple that starts with the embedding.");
    // [/step-1-taps]

    const matrix& last = room.seen.read("target.hidden", shape.layers - 1);
    const std::vector<float> normed =
        spec_norm(room.actors->target_tensors.norm, shape.rms_norm_eps, last.view().row(2));
    out.expect("last-tap-is-normed", same(room.raw.view().row(2).last(static_cast<std::size_t>(d)), normed), "Tap ",
               taps.back(), " is the last layer, so it is the row after the final norm, as in that tuple.");
    out.expect("first-token", room.first == words::on,
               "The row of \"sat\" chooses the first token: \"on\", at position 3.");
}
// [/step-1]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
