// The library's target, draft and acceptance rule, each in a wrapper that can make one mistake on the outside. Without
// a mistake a wrapper hands every call on as it came.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <dflash/decode/acceptance.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "walkthrough/cast.hpp"
#include "walkthrough/desk.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// The target's cache. Mistake: it keeps one position more than it is told to.
class target_cache {
public:
    target_cache(contiguous_cache<float> rows, const desk& on) : rows_(std::move(rows)), desk_(&on) {}

    [[nodiscard]] index length() const noexcept { return rows_.length(); }
    [[nodiscard]] index capacity() const noexcept { return rows_.capacity(); }
    void crop(index n) {
        const bool more = desk_->wrong == mistake::wrong_crop && n > 0;
        rows_.crop((std::min)(more ? n + 1 : n, rows_.length()));
    }
    [[nodiscard]] contiguous_cache<float>& rows() noexcept { return rows_; }

private:
    contiguous_cache<float> rows_;
    const desk* desk_;
};

/// A feature_target: target_transformer on the exact backend.
class target_player {
public:
    using model = target_transformer<cpu::exact, cpu::exact, contiguous_cache<float>, window>;
    using space = host_space;
    using cache_type = target_cache;
    static constexpr determinism guarantee = model::guarantee;

    target_player(const cast& actors, desk& on);

    [[nodiscard]] const target_shape& shape() const noexcept { return model_.shape(); }
    [[nodiscard]] index vocab_size() const noexcept { return model_.vocab_size(); }
    [[nodiscard]] index max_positions() const noexcept { return model_.max_positions(); }
    [[nodiscard]] index hidden_size() const noexcept { return model_.hidden_size(); }
    [[nodiscard]] index feature_size() const noexcept { return model_.feature_size(); }
    [[nodiscard]] cache_type make_cache(index n);
    void embed(std::span<const token_id> ids, matrix_view<float> out);
    void head(matrix_view<const float> hidden, matrix_view<float> out);
    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out);

private:
    void replace_last_tap(matrix_view<float> features);

    desk* desk_;
    model model_;
};

/// What dflash_drafter needs of a draft: draft_transformer on the watched backend.
class draft_player {
public:
    using model = draft_transformer<draft_backend, draft_backend, contiguous_cache<float>, window>;
    using cache_type = contiguous_cache<float>;

    draft_player(const cast& actors, desk& on);

    [[nodiscard]] const draft_shape& shape() const noexcept { return model_.shape(); }
    [[nodiscard]] index hidden_size() const noexcept { return model_.hidden_size(); }
    [[nodiscard]] index feature_size() const noexcept { return model_.feature_size(); }
    [[nodiscard]] index max_positions() const noexcept { return model_.max_positions(); }
    [[nodiscard]] cache_type make_cache(index n);
    void inject(matrix_view<const float> features, cache_type& cache);
    void forward(matrix_view<const float> embeddings, cache_type& cache, matrix_view<float> hidden);

private:
    desk* desk_;
    model model_;
    index block_at_ = -1;
};

/// sample_and_match. Mistake: the row of a draft verifies that draft, instead of the row before it.
struct acceptance_player {
    static constexpr bool lossless = true;
    const desk* desk_;

    template <token_sampler Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        if (desk_->wrong != mistake::head_row_off_by_one || call.drafts.empty()) {
            return sample_and_match{}.accept(call, sampler);
        }
        accept_call<> shifted = call;
        shifted.drafts = call.drafts.first(call.drafts.size() - 1);
        shifted.logits = call.logits.rows(1, call.logits.rows() - 1);
        shifted.position = call.position + 1;
        return sample_and_match{}.accept(shifted, sampler);
    }
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
