// The target: a causal decoder stack (Qwen3, Llama 3) with embedding, head and layer taps. A feature_target.
//
// A forward of m tokens gives the bits of m forwards of one when the backend's operations are batch invariant; nothing
// here looks at m except to size the workspace. One forward at a time per object: the workspace is shared.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <dflash/concepts/model.hpp>
#include <dflash/concepts/observer.hpp>
#include <dflash/model/layer_stack.hpp>

DFLASH_BEGIN_NAMESPACE

template <tensor_ops Ops, class Attention = Ops, class Cache = typename Ops::cache_type, class Observer = no_observer>
class target_transformer {
public:
    using space = typename Ops::space;
    using scalar = typename Ops::scalar;
    using cache_type = Cache;
    static constexpr determinism guarantee = (std::min)(Ops::guarantee, Attention::guarantee);

    /// Packs the weights for the backend; the views may go away afterwards. `taps` are the 0-based layers whose output
    /// a draft listens to, in order. Errors: config_error (shape, taps, a tensor's shape), backend_error (memory).
    target_transformer(target_shape shape, const target_weights& weights, std::span<const index> taps = {},
                       Ops ops = {}, Attention attention = {}, Observer observer = {})
        : shape_(checked(std::move(shape), taps)),
          taps_(taps.begin(), taps.end()),
          stack_(shape_, std::move(ops), std::move(attention), std::move(observer)),
          embedding_(decoder_layer<Ops>::matrix(stack_.ops(), "embed_tokens", weights.embedding, {}, false,
                                                shape_.vocab_size, shape_.hidden_size)),
          norm_(decoder_layer<Ops>::norm(stack_.ops(), "norm", weights.norm, shape_.hidden_size)) {
        // The largest tensors come first, while there is little else in memory.
        tell_packed(weights.on_packed.get(), weights.embedding);
        if (!shape_.tied_head) {
            head_.emplace(decoder_layer<Ops>::matrix(stack_.ops(), "lm_head", weights.head, {}, false,
                                                     shape_.vocab_size, shape_.hidden_size));
            tell_packed(weights.on_packed.get(), weights.head);
        }
        stack_.pack("target", weights.layers, projection::qkv, weights.on_packed.get());
    }

    target_transformer(const target_transformer&) = delete;
    target_transformer& operator=(const target_transformer&) = delete;

    [[nodiscard]] const target_shape& shape() const noexcept { return shape_; }
    [[nodiscard]] std::span<const index> taps() const noexcept { return taps_; }
    [[nodiscard]] index vocab_size() const noexcept { return shape_.vocab_size; }
    [[nodiscard]] index hidden_size() const noexcept { return shape_.hidden_size; }
    [[nodiscard]] index max_positions() const noexcept { return shape_.max_positions; }
    [[nodiscard]] index feature_size() const noexcept { return static_cast<index>(taps_.size()) * shape_.hidden_size; }
    [[nodiscard]] Ops& backend() noexcept { return stack_.ops(); }
    [[nodiscard]] Observer& observer() noexcept { return stack_.observer(); }

    /// Replaces the rotary table, e.g. by one with hand-made angles. Errors: config_error when it does not fit.
    void set_rope_table(numerics::rope_table table) { stack_.rope().inject(std::move(table)); }

    [[nodiscard]] cache_type make_cache(index capacity) { return stack_.make_cache(capacity); }

    /// Extends the sequence by the tokens. Logits are those of the last out.logits.rows() tokens, features of all.
    /// Errors: config_error for a token outside the vocabulary or no room; the cache is unchanged then.
    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<space>& out) {
        const index m = size_of(tokens);
        const index position = cache.length();
        check_call(m, position, cache, out);
        stack_.reserve(position, m);
        replay_key key = stack_.key(cache, m);
        key.in = tokens.data();
        key.out = out.logits.data();
        key.out_stride = out.logits.stride();
        key.logits = out.logits.rows();
        key.features = out.features.data();
        key.features_stride = out.features.stride();
        replayed<Observer>(stack_.ops(), key, position, [&] { run(tokens, cache, position, out); });
        cache.extend(position + m);
    }

    /// Embedding rows: (n, d).
    void embed(std::span<const token_id> ids, matrix_view<float, space> out) {
        if constexpr (std::is_same_v<scalar, float>) {
            stack_.ops().gather(embedding_, ids, out);
        } else {
            grow(scratch_, size_of(ids) * shape_.hidden_size);
            const matrix_view<scalar, space> rows = scratch_.matrix(size_of(ids), shape_.hidden_size);
            stack_.ops().gather(embedding_, ids, rows);
            stack_.ops().copy(matrix_view<const scalar, space>(rows), out);
        }
    }

    /// Logits (n, v) of rows (n, d) that have passed a final norm.
    void head(matrix_view<const float, space> hidden, matrix_view<float, space> out) {
        if constexpr (std::is_same_v<scalar, float>) {
            head_rows(hidden, out);
        } else {
            grow(head_in_, hidden.rows() * hidden.cols());
            const matrix_view<scalar, space> rows = head_in_.matrix(hidden.rows(), hidden.cols());
            stack_.ops().copy(hidden, rows);
            head_rows(rows, out);
        }
    }

private:
    /// What a forward computes.
    void run(std::span<const token_id> tokens, cache_type& cache, index position, const forward_output<space>& out) {
        const index m = size_of(tokens);
        layer_workspace<Ops>& work = stack_.work();
        stack_.ops().gather(embedding_, tokens, work.hidden(m));
        stack_.run(cache, position, m, [&](index layer) {
            if (layer + 1 < shape_.layers) {
                tap(layer, m, work.hidden(m), out.features);
            }
        });
        // Hidden states are counted as the model's makers do: the last entry is the one after the final norm.
        const bool last_tapped =
            !out.features.empty() && std::find(taps_.begin(), taps_.end(), shape_.layers - 1) != taps_.end();
        const index r = last_tapped ? m : out.logits.rows();
        if (r > 0) {
            stack_.ops().rms_norm(work.hidden(m).rows(m - r, r), norm_, shape_.rms_norm_eps,
                                  work.normed(m).rows(m - r, r));
            if (last_tapped) {
                tap(shape_.layers - 1, m, work.normed(m), out.features);
            }
            if (out.logits.rows() > 0) {
                head_rows(work.normed(m).rows(m - out.logits.rows(), out.logits.rows()), out.logits);
            }
        }
    }

    static target_shape checked(target_shape shape, std::span<const index> taps) {
        shape.check();
        for (const index tap : taps) {
            if (tap < 0 || tap >= shape.layers) {
                raise<config_error>("target_layer_ids: holds ", tap, ", the target has layers 0 .. ", shape.layers - 1);
            }
        }
        return shape;
    }

    void check_call(index m, index position, const cache_type& cache, const forward_output<space>& out) const {
        if (m < 1) {
            raise<config_error>("forward: got ", m, " tokens, needs at least 1");
        }
        stack_.check_room("forward", position, m, cache);
        if (out.logits.rows() > m || (out.logits.rows() > 0 && out.logits.cols() != shape_.vocab_size)) {
            raise<config_error>("forward: logits (", out.logits.rows(), ", ", out.logits.cols(), "), needs at most (",
                                m, ", ", shape_.vocab_size, ")");
        }
        if (!out.features.empty() && (out.features.rows() != m || out.features.cols() != feature_size())) {
            raise<config_error>("forward: features (", out.features.rows(), ", ", out.features.cols(), "), needs (", m,
                                ", ", feature_size(), ")");
        }
    }

    void tap(index layer, index m, matrix_view<const scalar, space> rows, const matrix_view<float, space>& features) {
        for (std::size_t t = 0; t < taps_.size() && !features.empty(); ++t) {
            if (taps_[t] == layer) {
                stack_.ops().copy(
                    rows, features.rows(0, m).columns(static_cast<index>(t) * shape_.hidden_size, shape_.hidden_size));
            }
        }
    }

    void head_rows(matrix_view<const scalar, space> rows, matrix_view<float, space> logits) {
        const typename Ops::linear_weights& weights = head_ ? *head_ : embedding_;
        if constexpr (std::is_same_v<scalar, float>) {
            stack_.ops().linear(rows, weights, logits);
        } else {
            grow(scratch_, rows.rows() * shape_.vocab_size);
            const matrix_view<scalar, space> out = scratch_.matrix(rows.rows(), shape_.vocab_size);
            stack_.ops().linear(rows, weights, out);
            stack_.ops().copy(matrix_view<const scalar, space>(out), logits);
        }
    }

    static void grow(buffer<scalar, space>& memory, index size) {
        if (memory.size() < size) {
            memory = buffer<scalar, space>(size);
        }
    }

    target_shape shape_;
    std::vector<index> taps_;
    layer_stack<Ops, Attention, Cache, Observer> stack_;
    typename Ops::linear_weights embedding_;
    std::optional<typename Ops::linear_weights> head_;
    typename Ops::vector_weights norm_;
    buffer<scalar, space> scratch_;
    buffer<scalar, space> head_in_;
};

DFLASH_END_NAMESPACE
