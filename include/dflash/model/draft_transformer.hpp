// The DFlash draft: a decoder stack without embedding and head that listens to tapped layers of its target.
//
// Context positions enter every layer as extra K and V rows (KV injection): C = RMSNorm(fc(features)) goes through the
// layer's own k_proj, v_proj, k_norm and RoPE at its absolute position. It passes no input norm and has no query, no
// output and no MLP. Those rows are computed once per committed token and kept; the block's own rows never stay.
// Source: DFlash, arXiv 2602.06036.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <dflash/concepts/observer.hpp>
#include <dflash/model/layer_stack.hpp>

DFLASH_BEGIN_NAMESPACE

template <tensor_ops Ops, class Attention = Ops, class Cache = typename Ops::cache_type, class Observer = no_observer>
class draft_transformer {
public:
    using space = typename Ops::space;
    using scalar = typename Ops::scalar;
    using cache_type = Cache;
    static constexpr determinism guarantee = (std::min)(Ops::guarantee, Attention::guarantee);

    /// Packs the weights for the backend; the views may go away afterwards. Errors: config_error, backend_error.
    draft_transformer(draft_shape shape, const draft_weights& weights, Ops ops = {}, Attention attention = {},
                      Observer observer = {})
        : shape_(checked(std::move(shape))),
          stack_(shape_, std::move(ops), std::move(attention), std::move(observer)),
          fc_(decoder_layer<Ops>::matrix(stack_.ops(), "fc", weights.fc, {}, false, shape_.hidden_size,
                                         feature_size())),
          hidden_norm_(decoder_layer<Ops>::norm(stack_.ops(), "hidden_norm", weights.hidden_norm, shape_.hidden_size)),
          norm_(decoder_layer<Ops>::norm(stack_.ops(), "norm", weights.norm, shape_.hidden_size)) {
        tell_packed(weights.on_packed.get(), weights.fc);
        if constexpr (one_product_for_context) {
            if (size_of(std::span(weights.layers)) == shape_.layers && of_one_type(weights.layers)) {
                context_projections_.emplace(
                    decoder_layer<Ops>::context_projections(stack_.ops(), shape_, weights.layers));
            }
        }
        stack_.pack("draft", weights.layers, projection::q_and_kv, weights.on_packed.get());
    }

    draft_transformer(const draft_transformer&) = delete;
    draft_transformer& operator=(const draft_transformer&) = delete;

    [[nodiscard]] const draft_shape& shape() const noexcept { return shape_; }
    [[nodiscard]] index hidden_size() const noexcept { return shape_.hidden_size; }
    [[nodiscard]] index feature_size() const noexcept {
        return static_cast<index>(shape_.taps.size()) * shape_.hidden_size;
    }
    [[nodiscard]] index max_positions() const noexcept { return shape_.max_positions; }
    [[nodiscard]] Ops& backend() noexcept { return stack_.ops(); }
    [[nodiscard]] Observer& observer() noexcept { return stack_.observer(); }

    /// Replaces the rotary table, e.g. by one with hand-made angles. Errors: config_error when it does not fit.
    void set_rope_table(numerics::rope_table table) { stack_.rope().inject(std::move(table)); }

    [[nodiscard]] cache_type make_cache(index capacity) { return stack_.make_cache(capacity); }

    /// Adds context: K and V rows of every layer for features (c, k*d) of positions cache.length() onwards.
    /// Errors: config_error when there is no room; the cache is unchanged then.
    void inject(matrix_view<const float, space> features, cache_type& cache) {
        const index c = features.rows();
        const index position = cache.length();
        if (features.cols() != feature_size()) {
            raise<config_error>("inject: features have ", features.cols(), " columns, needs ", feature_size());
        }
        stack_.check_room("inject", position, c, cache);
        if (c == 0) {
            return;
        }
        stack_.rope().reserve(position + c);
        reserve_context(c);
        replay_key key = stack_.key(cache, c);
        key.in = features.data();
        key.in_stride = features.stride();
        key.workspace = context_rows_;
        replayed<Observer>(stack_.ops(), key, position, [&] { run_inject(features, cache, position); });
        cache.extend(position + c);
    }

    /// One denoising pass over a block: embeddings (b, d) at positions cache.length() onwards give normalised hidden
    /// rows (b, d), ready for the target's head. The cache keeps its length.
    void forward(matrix_view<const float, space> embeddings, cache_type& cache, matrix_view<float, space> hidden) {
        const index b = embeddings.rows();
        const index position = cache.length();
        if (b < 1 || embeddings.cols() != shape_.hidden_size) {
            raise<config_error>("draft forward: embeddings are (", b, ", ", embeddings.cols(), "), needs (b, ",
                                shape_.hidden_size, ")");
        }
        stack_.check_room("draft forward", position, b, cache);
        stack_.reserve(position, b);
        replay_key key = stack_.key(cache, b);
        key.in = embeddings.data();
        key.in_stride = embeddings.stride();
        key.out = hidden.data();
        key.out_stride = hidden.stride();
        replayed<Observer>(stack_.ops(), key, position, [&] { run_block(embeddings, cache, position, hidden); });
    }

private:
    using rows = matrix_view<scalar, space>;

    /// Whether the backend wants K and V of context from one product for all layers. It costs the memory of k_proj and
    /// v_proj once more, and pays where a product of one layer is too small to keep the machine busy.
    static constexpr bool one_product_for_context = requires { requires Ops::one_product_for_context; };

    /// A stack whose parts are stored in different types is computed in f32, so layers of different types may not be
    /// stacked: whether a layer's inputs are rounded to bf16 would depend on the others.
    [[nodiscard]] static bool of_one_type(std::span<const layer_weights> layers) {
        return std::all_of(layers.begin(), layers.end(), [&](const layer_weights& w) {
            return w.k.type == layers[0].k.type && w.v.type == layers[0].k.type;
        });
    }

    [[nodiscard]] index kv_cols() const noexcept { return 2 * shape_.kv_heads * shape_.head_dim; }

    /// What inject() computes.
    void run_inject(matrix_view<const float, space> features, cache_type& cache, index position) {
        const index c = features.rows();
        const rows projected = projected_.matrix(c, shape_.hidden_size);
        const rows context = context_.matrix(c, shape_.hidden_size);
        const rows kv = context_kv_.matrix(c, kv_cols());
        if constexpr (std::is_same_v<scalar, float>) {
            stack_.ops().linear(features, fc_, projected);
        } else {
            const rows in = features_.matrix(c, feature_size());
            stack_.ops().copy(features, in);
            stack_.ops().linear(in, fc_, projected);
        }
        if constexpr (one_product_for_context) {
            if (context_projections_) {
                inject_at_once(projected, context, cache, position);
                return;
            }
        }
        stack_.ops().rms_norm(projected, hidden_norm_, shape_.rms_norm_eps, context);
        stack_.show("context", -1, position, context);
        for (index l = 0; l < shape_.layers; ++l) {
            stack_.inject(l, position, context, kv);
            write_rows(stack_.ops(), cache, l, position, kv.columns(0, kv_cols() / 2),
                       kv.columns(kv_cols() / 2, kv_cols() / 2));
        }
    }

    /// The end of run_inject() with all layers' K and V from one product.
    void inject_at_once(rows projected, rows context, cache_type& cache, index position) {
        stack_.ops().rms_norm(projected, hidden_norm_, shape_.rms_norm_eps, context);
        stack_.show("context", -1, position, context);
        const rows all = context_kv_.matrix(context.rows(), shape_.layers * kv_cols());
        stack_.ops().linear(context, *context_projections_, all);
        for (index l = 0; l < shape_.layers; ++l) {
            const rows kv = all.columns(l * kv_cols(), kv_cols());
            stack_.finish_context(l, position, kv);
            write_rows(stack_.ops(), cache, l, position, kv.columns(0, kv_cols() / 2),
                       kv.columns(kv_cols() / 2, kv_cols() / 2));
        }
    }

    /// What forward() computes.
    void run_block(matrix_view<const float, space> embeddings, cache_type& cache, index position,
                   matrix_view<float, space> hidden) {
        const index b = embeddings.rows();
        layer_workspace<Ops>& work = stack_.work();
        stack_.ops().copy(embeddings, work.hidden(b));
        stack_.run(cache, position, b, [](index) {});
        stack_.ops().rms_norm(work.hidden(b), norm_, shape_.rms_norm_eps, work.normed(b));
        stack_.ops().copy(matrix_view<const scalar, space>(work.normed(b)), hidden);
    }

    static draft_shape checked(draft_shape shape) {
        shape.check();
        return shape;
    }

    void reserve_context(index c) {
        if (c <= context_rows_) {
            return;
        }
        projected_ = buffer<scalar, space>(c * shape_.hidden_size);
        context_ = buffer<scalar, space>(c * shape_.hidden_size);
        context_kv_ = buffer<scalar, space>(c * kv_cols() * (one_product_for_context ? shape_.layers : 1));
        if constexpr (!std::is_same_v<scalar, float>) {
            features_ = buffer<scalar, space>(c * feature_size());
        }
        context_rows_ = c;
    }

    draft_shape shape_;
    layer_stack<Ops, Attention, Cache, Observer> stack_;
    typename Ops::linear_weights fc_;
    typename Ops::vector_weights hidden_norm_;
    typename Ops::vector_weights norm_;
    index context_rows_ = 0;
    buffer<scalar, space> features_;    // (c, k*d), only where the scalar is not float
    buffer<scalar, space> projected_;   // (c, d)
    buffer<scalar, space> context_;     // (c, d)
    buffer<scalar, space> context_kv_;  // (c, 2*g*e), of all layers with one_product_for_context
    std::optional<typename Ops::linear_weights> context_projections_;
};

DFLASH_END_NAMESPACE
