#include "walkthrough/checks.hpp"
#include "walkthrough/pictures.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-4]
// Q = rope(q_norm(norm(H) W_Q))   K = rope(k_norm([ C W_K ; norm(H) W_K ]))   V = [ C W_V ; norm(H) W_V ]
// A = softmax(Q K^T / sqrt(e))    out = A V      no causal mask: 4 queries over 3 + 4 keys; then W_O
void step_4_attend_with_injected_keys(classroom& room) {
    page out = room.open(4, "KV injection: 4 queries over 3 + 4 keys",
                         {"Q = rope(q_norm(norm(H) W_Q))   K = rope(k_norm([C W_K ; norm(H) W_K]))",
                          "V = [C W_V ; norm(H) W_V]   A = softmax(Q K^T / sqrt(e))   out = A V, then W_O"});
    // [step-4-run]
    room.hidden = matrix(room.plot.block, room.draft.hidden_size());

    room.draft.forward(room.embeddings.view(), room.draft_rows, room.hidden.view());
    // [/step-4-run]

    const std::vector<std::string> queries = room.places(room.plot.start, room.block);
    std::vector<std::string> keys = room.places(0, room.plot.prompt);
    keys.insert(keys.end(), queries.begin(), queries.end());
    show_rotations(out, room, keys);
    for (index l = 0; l < room.draft.shape().layers; ++l) {
        show_attention(out, room, l, queries, keys);
    }
    list_rows(out, room);
    if (room.actors->on_paper) {
        out.remark("0.4901 is ln 2 / sqrt 2; divided by sqrt(e) once more, a score is ln 2, 0 or -ln 2.");
    }
    out.remark("Position 5, head 0, layer 0, context | block:");
    out.remark(expanded(room, 2));
    draw_masks(out, room, queries, keys);

    out.expect("context-rows-skip-the-input-norm", context_rows_come_from_c(room),
               "Rows 0 1 2 are rope(k_norm(W_K C)) and W_V C in every layer: C passes no input norm.");
    out.expect("block-rows-share-the-weights", block_rows_come_from_h(room),
               "Rows 3 4 5 6 are made of the normed block with the same W_K and W_V.");
    out.expect("queries-stand-at-3-to-6", queries_stand_from(room, 3),
               "The four queries are turned to positions 3 4 5 6, not to 0 1 2 3.");
    out.expect("only-the-distance-counts", score_depends_on_distance(room),
               "The score of query 5 and key 2 is that of q turned by the distance 3.");
    out.expect("every-slot-sees-all", every_slot_sees_everything(room),
               "No weight of the 4 x 7 is zero: every slot sees the context and the whole block, both ways.");
    out.expect("the-context-is-heard", context_share(room, 2) > 0.0F,
               "A part of out_5 comes from the target: A_50 + A_51 + A_52 is above zero.");
    out.expect("scores-are-scaled",
               room.seen.read("draft.scale", 0).values[0] == numerics::attention_scale(room.actors->draft.head_dim),
               "Scores are divided by the square root of the head's width, ", room.actors->draft.head_dim, ".");
    if (room.actors->on_paper) {
        out.expect("weights-are-fractions", weights_are_fractions(room),
                   "Scores are ln 2, 0 or -ln 2, so weights are as 2 : 1 : 1/2 and every one is a fraction.");
    }
}
// [/step-4]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
