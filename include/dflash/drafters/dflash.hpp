// The DFlash drafter: fills [anchor, MASK, MASK, ...] in one pass and chooses a token for every slot.
//
// It owns the draft's context of one sequence; the weights are shared. The target lends its embedding and head. Slot 0
// holds the anchor and its output is dropped. Source: DFlash, arXiv 2602.06036.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <dflash/buffer.hpp>
#include <dflash/concepts/drafter.hpp>
#include <dflash/concepts/observer.hpp>
#include <dflash/sampling/drafting.hpp>

DFLASH_BEGIN_NAMESPACE

/// A drafter_for<Target>. One per sequence; several may share the draft and the target in one thread. `Choice` is
/// argmax_drafts, coupled_drafts or sampled_drafts (sampling/drafting.hpp).
template <class Draft, feature_target Target, class Observer = no_observer, class Choice = argmax_drafts>
    requires draft_choice<Choice, typename Target::space>
class dflash_drafter {
public:
    using space = typename Target::space;
    using cache_type = typename Draft::cache_type;

    /// Errors: config_error when the pair does not fit, with the field and both numbers.
    dflash_drafter(Draft& draft, Target& target, Observer observer = {}, Choice choice = {})
        : draft_(&draft), target_(&target), observer_(std::move(observer)), choice_(std::move(choice)) {
        if (draft.hidden_size() != target.hidden_size()) {
            raise<config_error>("draft: hidden_size is ", draft.hidden_size(), ", the target's is ",
                                target.hidden_size());
        }
        if (draft.feature_size() != target.feature_size()) {
            raise<config_error>("draft: fc takes ", draft.feature_size(), " features, the target's taps give ",
                                target.feature_size());
        }
        if (draft.shape().mask_token < 0 || draft.shape().mask_token >= target.vocab_size()) {
            raise<config_error>("draft: mask_token_id is ", draft.shape().mask_token, ", needs 0 .. ",
                                target.vocab_size() - 1);
        }
    }

    [[nodiscard]] index feature_size() const noexcept { return draft_->feature_size(); }
    [[nodiscard]] index max_positions() const noexcept { return draft_->max_positions(); }
    /// Positions it was told of: those in the cache, and those whose features wait.
    [[nodiscard]] index context_length() const noexcept { return cached() + waiting_; }
    [[nodiscard]] Observer& observer() noexcept { return observer_; }

    /// Makes room for a sequence of n positions, its last block included.
    void reserve(index n) {
        if (!cache_) {
            features_ = buffer<float, space>(waiting_room * feature_size());
            cache_.emplace(draft_->make_cache(n));  // last: it tells that both are there
        } else if (cache_->capacity() < n) {
            cache_->reserve(n);
        }
    }

    /// Takes over committed positions: their features become K and V rows of every draft layer, once. Few rows wait for
    /// the next draft: projecting them streams all weights, however many they are, and plain decoding needs none of it.
    void commit(std::span<const token_id> tokens, matrix_view<const float, space> features) {
        const index rows = size_of(tokens);
        DFLASH_EXPECTS(features.rows() == rows, "dflash_drafter: ", rows, " tokens came with ", features.rows(),
                       " feature rows");
        reserve(context_length() + rows);
        if (waiting_ + rows > waiting_room) {
            project();
        }
        if (rows > waiting_room) {
            draft_->inject(features, *cache_);
            return;
        }
        keep(features, features_.matrix(waiting_ + rows, feature_size()).rows(waiting_, rows));
        waiting_ += rows;
    }

    /// Makes K and V rows of all features that wait. Drafting does it; to do it earlier changes no result.
    void project() {
        if (waiting_ > 0) {
            draft_->inject(features_.matrix(waiting_, feature_size()), *cache_);
            waiting_ = 0;
        }
    }

    /// Guesses the block - 1 tokens after the anchor.
    void propose(const draft_request& request, draft_output<space>& out) {
        const index b = request.block;
        const index vocab = target_->vocab_size();
        reserve(context_length() + b);
        make_room(b);
        project();
        std::fill_n(ids_.data(), b, draft_->shape().mask_token);
        ids_[0] = request.committed.back();
        const matrix_view<float, space> embeddings = embeddings_.matrix(b, draft_->hidden_size());
        const matrix_view<float, space> hidden = hidden_.matrix(b, draft_->hidden_size());
        const matrix_view<float, space> logits = logits_.matrix(b - 1, vocab);
        target_->embed({ids_.data(), static_cast<std::size_t>(b)}, embeddings);
        draft_->forward(embeddings, *cache_, hidden);
        if (b == 1) {
            return;
        }
        target_->head(hidden.rows(1, b - 1), logits);
        notify<tensor_event<space>>(
            observer_, [&] { return tensor_event<space>{"draft_logits", -1, context_length() + 1, logits}; });
        choice_.choose(logits, size_of(request.committed), request.noise, out);
    }

    void crop(index n) {
        DFLASH_EXPECTS(n >= 0 && n <= context_length(), "dflash_drafter: crop to ", n, " of ", context_length());
        if (n >= cached()) {
            waiting_ = n - cached();
        } else {
            waiting_ = 0;
            cache_->crop(n);
        }
    }

    void reset() { crop(0); }

private:
    using tokens_in = typename token_space<space>::type;

    static constexpr index waiting_room = 1024;  // rows of features that may wait

    [[nodiscard]] index cached() const noexcept { return cache_ ? cache_->length() : 0; }

    /// Features belong to the decoder, which writes over them in the next round.
    void keep(matrix_view<const float, space> features, matrix_view<float, space> to) const {
        if constexpr (std::is_same_v<space, host_space>) {
            for (index r = 0; r < features.rows(); ++r) {
                std::copy_n(features.row(r).data(), features.cols(), to.row(r).data());
            }
        } else {
            draft_->backend().copy(features, to);
        }
    }

    void make_room(index b) {
        if (b <= rows_) {
            return;
        }
        ids_ = buffer<token_id, tokens_in>(b);
        embeddings_ = buffer<float, space>(b * draft_->hidden_size());
        hidden_ = buffer<float, space>(b * draft_->hidden_size());
        logits_ = buffer<float, space>((std::max)(index{1}, b - 1) * target_->vocab_size());
        rows_ = b;
    }

    Draft* draft_;
    Target* target_;
    Observer observer_;
    Choice choice_;
    std::optional<cache_type> cache_;
    index waiting_ = 0;              // rows of features_ that are not in the cache yet
    buffer<float, space> features_;  // (waiting_room, k*d)
    index rows_ = 0;
    buffer<token_id, tokens_in> ids_;  // (b)
    buffer<float, space> embeddings_;  // (b, d)
    buffer<float, space> hidden_;      // (b, d)
    buffer<float, space> logits_;      // (b-1, v)
};

DFLASH_END_NAMESPACE
