#include <cmath>

#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

// [step-2]
// C = RMSNorm(W_fc raw)            k rows of d become one, for every context position
// K_ctx, V_ctx of every draft layer are made of C; C has no query, no output and no MLP
void step_2_fuse_and_normalise(classroom& room) {
    page out = room.open(2, "Projection and norm: one context row for each position",
                         {"C = RMSNorm(W_fc raw)   one row of d for every context position, the same for all layers",
                          "it becomes rows of K and V in every draft layer, and nothing else"});

    // [step-2-run]
    room.draft.inject(room.raw.view(), room.draft_rows);
    // [/step-2-run]

    room.context = room.seen.read("draft.context");
    const std::vector<std::string> places = room.places(0, room.plot.prompt);
    out.show("W_fc raw", room.seen.read("draft.fc").view(), places);
    out.show("C", room.context.view(), places);

    bool unit = true;
    bool spec = true;
    for (index r = 0; r < room.context.rows; ++r) {
        double sum = 0;
        for (const float x : room.context.view().row(r)) {
            sum = std::fma(static_cast<double>(x), static_cast<double>(x), sum);
        }
        unit = unit && std::fabs(sum / static_cast<double>(room.context.cols) - 1.0) < 1e-4;
        const std::vector<float> fused = spec_linear(room.actors->draft_tensors.fc, room.raw.view().row(r));
        spec = spec && same(room.context.view().row(r),
                            spec_norm(room.actors->draft_tensors.hidden_norm, room.actors->draft.rms_norm_eps, fused));
    }
    out.expect("context-is-normed", unit, "Every row of C has mean square 1: hidden_norm comes after fc.");
    out.expect("context-is-fc-then-norm", spec, "C has the bits of rms_norm(linear(raw)) in the scalar specification.");
    out.remark("The draft's cache now holds ", room.draft_rows.length(),
               " positions: work that is done once for every position.");
}
// [/step-2]

}  // namespace walkthrough
DFLASH_END_NAMESPACE
