#include "walkthrough/players.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

cpu::exact plain_backend() {
    return cpu::exact(cpu::exact_options{.threads = 1});
}

target_shape shape_of(target_shape shape, mistake wrong) {
    for (mask_rule& mask : shape.masks) {
        mask.causal = wrong != mistake::two_sided_verify;
    }
    return shape;
}

std::vector<index> taps_of(std::vector<index> taps, mistake wrong) {
    for (index& tap : taps) {
        tap -= wrong == mistake::tap_off_by_one ? 1 : 0;
    }
    return taps;
}

draft_shape shape_of(draft_shape shape, mistake wrong) {
    for (mask_rule& mask : shape.masks) {
        mask.causal = wrong == mistake::causal_block;
    }
    if (wrong == mistake::no_mask) {
        shape.mask_token = words::on;
    }
    return shape;
}

}  // namespace

target_player::target_player(const cast& actors, desk& on)
    : desk_(&on),
      model_(shape_of(actors.target, on.wrong), actors.target_tensors, taps_of(actors.draft.taps, on.wrong),
             plain_backend(), plain_backend(), window{&on, "target"}) {
    if (actors.inject_rotations) {
        model_.set_rope_table(actors.rotations);
    }
}

target_cache target_player::make_cache(index n) {
    return {model_.make_cache(n), *desk_};
}

void target_player::embed(std::span<const token_id> ids, matrix_view<float> out) {
    model_.embed(ids, out);
}

void target_player::head(matrix_view<const float> hidden, matrix_view<float> out) {
    model_.head(hidden, out);
}

void target_player::forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) {
    forward_output<> asked = out;
    matrix all_rows;
    if (desk_->wrong == mistake::logits_of_the_first_row && out.logits.rows() > 0) {
        all_rows = matrix(size_of(tokens), vocab_size());
        asked.logits = all_rows.view();
    }
    model_.forward(tokens, cache.rows(), asked);
    for (index r = 0; r < out.logits.rows() && all_rows.rows > 0; ++r) {
        std::copy_n(all_rows.view().row(r).data(), vocab_size(), out.logits.row(r).data());
    }
    if (desk_->wrong == mistake::last_tap_before_norm) {
        replace_last_tap(out.features);
    }
    if (!out.features.empty()) {
        desk_->verify_features = matrix(out.features);
    }
}

void target_player::replace_last_tap(matrix_view<float> features) {
    const index d = hidden_size();
    const matrix& rows = desk_->read("target.hidden", shape().layers - 1);
    for (index r = 0; r < features.rows(); ++r) {
        std::copy_n(rows.view().row(r).data(), d, features.row(r).data() + features.cols() - d);
    }
}

draft_player::draft_player(const cast& actors, desk& on)
    : desk_(&on),
      model_(shape_of(actors.draft, on.wrong), actors.draft_tensors, draft_backend(on), draft_backend(on),
             window{&on, "draft"}) {
    if (actors.inject_rotations) {
        model_.set_rope_table(actors.rotations);
    }
    on.eps = actors.draft.rms_norm_eps;
    on.input_norms.clear();
    for (const layer_weights& layer : actors.draft_tensors.layers) {
        on.input_norms.push_back(model_.backend().pack_vector(layer.input_norm));
    }
}

contiguous_cache<float> draft_player::make_cache(index n) {
    return model_.make_cache(n);
}

void draft_player::inject(matrix_view<const float> features, cache_type& cache) {
    const matrix whole = desk_->verify_features;
    if (desk_->wrong == mistake::keep_block_rows && cache.length() == block_at_) {
        cache.extend(cache.length() + features.rows());  // the rows of the block are still there
        return;
    }
    if (desk_->wrong == mistake::features_of_the_whole_block && whole.rows > features.rows()) {
        features = whole.view();
    }
    desk_->begin(desk::work::inject);
    model_.inject(features, cache);
    desk_->begin(desk::work::other);
}

void draft_player::forward(matrix_view<const float> embeddings, cache_type& cache, matrix_view<float> hidden) {
    block_at_ = cache.length();
    desk_->begin(desk::work::forward);
    model_.forward(embeddings, cache, hidden);
    desk_->begin(desk::work::other);
    if (desk_->wrong == mistake::keep_slot_0) {
        for (index r = hidden.rows() - 1; r > 0; --r) {
            std::copy_n(hidden.row(r - 1).data(), hidden.cols(), hidden.row(r).data());
        }
    }
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
