// The library as a contender. Attention is timed inside the step.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <dflash/cache/contiguous.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support/step_engine.hpp"

namespace dflash::bench {

/// An attention backend that adds up how long it took.
template <class Attention, class Scalar = float, class KeyValues = contiguous_layer<Scalar>>
class timed_attention {
public:
    using space = typename Attention::space;
    static constexpr determinism guarantee = Attention::guarantee;

    timed_attention(Attention attention, double& seconds) : attention_(std::move(attention)), seconds_(&seconds) {}

    void attend(const attention_call<Scalar, KeyValues>& call) const {
        const auto start = std::chrono::steady_clock::now();
        attention_.attend(call);
        *seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

private:
    Attention attention_;
    double* seconds_;
};

/// Fills the cache with the rows of positions 0 .. context - 1, without a forward.
template <class Cache>
void fill_cache(Cache& cache, index layers, index context, const cached_rows& rows) {
    using scalar = std::remove_cvref_t<decltype(cache.layer(0, 0).key(0, 0, 0))>;
    std::vector<scalar> k;
    std::vector<scalar> v;
    cache.crop(0);
    for (index l = 0; l < layers; ++l) {
        for (index p = 0; p < context; ++p) {
            const std::span<const float> key = rows.key(l, p);
            const std::span<const float> value = rows.value(l, p);
            k.assign(key.begin(), key.end());
            v.assign(value.begin(), value.end());
            cache.write(l, p, {k.data(), 1, size_of(key)}, {v.data(), 1, size_of(value)});
        }
    }
    cache.extend(context);
}

/// Any backend of the library.
template <class Ops>
class dflash_engine final : public step_engine {
public:
    dflash_engine(const work& w, const Ops& ops)
        : model_(w.target, w.target_tensors, {}, ops, timed_attention<Ops>(ops, attention_seconds_)) {}

    void open(index context, index room, const cached_rows& rows) override {
        cache_.reset();
        cache_.emplace(model_.make_cache(context + room));
        fill_cache(*cache_, model_.shape().layers, context, rows);
    }

    void forward(std::span<const token_id> tokens, index logit_rows) override {
        if (logits_.size() < logit_rows * model_.vocab_size()) {
            logits_ = buffer<float>(logit_rows * model_.vocab_size());
        }
        logit_rows_ = logit_rows;
        attention_seconds_ = 0;
        model_.forward(tokens, *cache_, {logits_.matrix(logit_rows, model_.vocab_size()), {}});
    }

    void crop(index n) override { cache_->crop(n); }

    std::span<const float> logits() override {
        return {logits_.data(), static_cast<std::size_t>(logit_rows_ * model_.vocab_size())};
    }

    [[nodiscard]] double attention_seconds() const override { return attention_seconds_; }

private:
    double attention_seconds_ = 0;
    target_transformer<Ops, timed_attention<Ops>> model_;
    std::optional<typename Ops::cache_type> cache_;
    buffer<float> logits_;
    index logit_rows_ = 0;
};

}  // namespace dflash::bench
