#include "walkthrough/desk.hpp"

#include <dflash/numerics/attention.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

/// Key or value rows from `first` on, every KV head: (s, g*e).
matrix rows_of(const attention_call<float, contiguous_layer<float>>& call, index first, bool keys) {
    const index e = call.head_dim;
    matrix out(call.cache.length() - first, call.kv_heads * e);
    for (index j = 0; j < out.rows; ++j) {
        for (index c = 0; c < out.cols; ++c) {
            out.view()(j, c) =
                keys ? call.cache.key(c / e, first + j, c % e) : call.cache.value(c / e, first + j, c % e);
        }
    }
    return out;
}

}  // namespace

void draft_backend::linear(matrix_view<const float> x, const linear_weights& w, matrix_view<float> y) const {
    const int call = desk_->linears++;
    matrix normed;
    if (desk_->now == desk::work::inject && call > 0 && desk_->wrong == mistake::context_through_input_norm) {
        normed = matrix(x.rows(), x.cols());
        cpu::exact::rms_norm(x, desk_->input_norms.at(static_cast<std::size_t>(call - 1)), desk_->eps, normed.view());
        x = normed.view();
    }
    cpu::exact::linear(x, w, y);
    if (desk_->now == desk::work::inject && call == 0) {
        desk_->note("draft.fc", -1, matrix(y));
    }
    if (desk_->now == desk::work::forward && call % 5 == 2) {  // q, k and v, o, gate and up, down
        desk_->note("draft.attn_out", call / 5, matrix(y));
    }
}

void draft_backend::rms_norm(matrix_view<const float> x, const vector_weights& w, float eps,
                             matrix_view<float> y) const {
    const int call = desk_->norms++;
    const bool hidden_norm = desk_->now == desk::work::inject;
    const bool input_norm = desk_->now == desk::work::forward && call % 2 == 0 &&
                            call / 2 < static_cast<int>(desk_->input_norms.size());  // input, post, ..., final
    if ((hidden_norm && desk_->wrong == mistake::no_hidden_norm) ||
        (input_norm && desk_->wrong == mistake::block_without_input_norm)) {
        cpu::exact::copy(x, y);
        return;
    }
    cpu::exact::rms_norm(x, w, eps, y);
}

void draft_backend::rope(matrix_view<float> x, index head_dim, const numerics::rope_table& table,
                         index position) const {
    const int call = desk_->rotations++;
    if (desk_->now == desk::work::forward) {  // q, then k, of each layer
        const bool query = call % 2 == 0;
        desk_->note(query ? "draft.q_before_rope" : "draft.k_before_rope", call / 2, matrix(x));
        position = query && desk_->wrong == mistake::query_positions_from_0 ? 0 : position;
    }
    cpu::exact::rope(x, head_dim, table, position);
}

void draft_backend::attend(attention_call<float, contiguous_layer<float>> call) const {
    const index layer = desk_->attentions++;
    const index before = call.cache.length() - call.queries.rows();
    if (desk_->wrong == mistake::no_scale) {
        call.scale = 1.0F;
    }
    if (desk_->wrong != mistake::no_injection) {
        watch(call, layer);
        cpu::exact::attend(call);
        return;
    }
    contiguous_cache<float> block(1, call.kv_heads, call.head_dim, call.queries.rows());
    block.write(0, 0, rows_of(call, before, true).view(), rows_of(call, before, false).view());
    call.cache = block.layer(0, call.queries.rows());
    call.position = 0;
    watch(call, layer);
    cpu::exact::attend(call);
}

/// Notes the keys, the values and the weight of every key for every query, head by head.
void draft_backend::watch(const attention_call<float, contiguous_layer<float>>& call, index layer) const {
    const index e = call.head_dim;
    const index keys = call.cache.length();
    const index m = call.queries.rows();
    const matrix k = rows_of(call, 0, true);
    matrix weights(call.heads * m, keys);
    for (index h = 0; h < call.heads; ++h) {
        const index kv = h / (call.heads / call.kv_heads) * e;
        for (index i = 0; i < m; ++i) {
            numerics::attention_weights(
                call.queries.row(i).data() + h * e, call.scale, e, keys,
                [&](index j) { return k.view().row(j).data() + kv; },
                [&](index j) { return call.mask.visible(call.position + i, j); }, weights.view().row(h * m + i).data());
        }
    }
    desk_->note("draft.keys", layer, k);
    desk_->note("draft.values", layer, rows_of(call, 0, false));
    desk_->note("draft.weights", layer, std::move(weights));
    matrix scale(1, 1);
    scale.values[0] = call.scale;
    desk_->note("draft.scale", layer, std::move(scale));
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
