// One decoder layer, packed for a backend, and the workspace a forward needs. Target and draft are stacks of these.
//
//   h = h + o_proj(attend(rope(q_norm(q)), rope(k_norm(k)), v)),   q, k, v = proj(norm(h))
//   h = h + down(silu(gate(n)) * up(n)),                           n = norm(h)
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include <dflash/buffer.hpp>
#include <dflash/concepts/attention.hpp>
#include <dflash/concepts/ops.hpp>
#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>
#include <dflash/numerics/attention.hpp>

DFLASH_BEGIN_NAMESPACE

/// How q, k and v are stacked: a target projects all three from the same rows; a draft projects k and v from context
/// rows too, so that q stands alone.
enum class projection : std::uint8_t { qkv, q_and_kv };

namespace detail {

/// Refuses a tensor of another shape. Errors: config_error with both shapes.
inline void check_tensor(const char* name, const tensor_view& tensor, index rows, index cols) {
    if (tensor.empty()) {
        raise<config_error>(name, ": the tensor is missing, needs shape (", rows, ", ", cols, ")");
    }
    if (tensor.rows != rows || tensor.cols != cols) {
        raise<config_error>(name, ": shape is (", tensor.rows, ", ", tensor.cols, "), needs (", rows, ", ", cols, ")");
    }
}

}  // namespace detail

/// Activations of m rows, grown when m grows and kept.
template <class Ops>
class layer_workspace {
public:
    using scalar = typename Ops::scalar;
    using space = typename Ops::space;
    using rows = matrix_view<scalar, space>;

    /// Room for m rows.
    void reserve(const transformer_shape& shape, index m) {
        if (m <= rows_) {
            return;
        }
        const index q = shape.heads * shape.head_dim;
        const index kv = shape.kv_heads * shape.head_dim;
        hidden_ = buffer<scalar, space>(m * shape.hidden_size);
        normed_ = buffer<scalar, space>(m * shape.hidden_size);
        out_ = buffer<scalar, space>(m * shape.hidden_size);
        qkv_ = buffer<scalar, space>(m * (q + 2 * kv));
        attended_ = buffer<scalar, space>(m * q);
        gate_up_ = buffer<scalar, space>(m * 2 * shape.intermediate_size);
        activated_ = buffer<scalar, space>(m * shape.intermediate_size);
        rows_ = m;
        shape_ = &shape;
    }

    /// Rows there is room for. The memory moves exactly when this grows.
    [[nodiscard]] index capacity() const noexcept { return rows_; }

    [[nodiscard]] rows hidden(index m) { return hidden_.matrix(m, shape_->hidden_size); }              // (m, d)
    [[nodiscard]] rows normed(index m) { return normed_.matrix(m, shape_->hidden_size); }              // (m, d)
    [[nodiscard]] rows out(index m) { return out_.matrix(m, shape_->hidden_size); }                    // (m, d)
    [[nodiscard]] rows qkv(index m) { return qkv_.matrix(m, q_cols() + 2 * kv_cols()); }               // (m, (h+2g)*e)
    [[nodiscard]] rows q(index m) { return qkv(m).columns(0, q_cols()); }                              // (m, h*e)
    [[nodiscard]] rows kv(index m) { return qkv(m).columns(q_cols(), 2 * kv_cols()); }                 // (m, 2*g*e)
    [[nodiscard]] rows k(index m) { return qkv(m).columns(q_cols(), kv_cols()); }                      // (m, g*e)
    [[nodiscard]] rows v(index m) { return qkv(m).columns(q_cols() + kv_cols(), kv_cols()); }          // (m, g*e)
    [[nodiscard]] rows attended(index m) { return attended_.matrix(m, q_cols()); }                     // (m, h*e)
    [[nodiscard]] rows gate_up(index m) { return gate_up_.matrix(m, 2 * shape_->intermediate_size); }  // (m, 2i)
    [[nodiscard]] rows activated(index m) { return activated_.matrix(m, shape_->intermediate_size); }  // (m, i)

private:
    [[nodiscard]] index q_cols() const noexcept { return shape_->heads * shape_->head_dim; }
    [[nodiscard]] index kv_cols() const noexcept { return shape_->kv_heads * shape_->head_dim; }

    const transformer_shape* shape_ = nullptr;
    index rows_ = 0;
    buffer<scalar, space> hidden_, normed_, out_, qkv_, attended_, gate_up_, activated_;
};

/// The packed weights of one layer and the steps of its forward.
template <tensor_ops Ops>
class decoder_layer {
public:
    using scalar = typename Ops::scalar;
    using space = typename Ops::space;
    using rows = matrix_view<scalar, space>;
    using linear_weights = typename Ops::linear_weights;
    using vector_weights = typename Ops::vector_weights;

    /// Packs the tensors of a layer. Errors: config_error for a shape that does not fit.
    decoder_layer(const Ops& ops, const transformer_shape& shape, const layer_weights& w, projection stacking)
        : input_norm_(norm(ops, "input_layernorm", w.input_norm, shape.hidden_size)),
          post_norm_(norm(ops, "post_attention_layernorm", w.post_norm, shape.hidden_size)),
          o_(matrix(ops, "o_proj", w.o, w.o_bias, shape.attention_bias, shape.hidden_size,
                    shape.heads * shape.head_dim)),
          gate_up_(stack(ops,
                         {{"gate_proj", w.gate, {}, shape.intermediate_size, shape.hidden_size},
                          {"up_proj", w.up, {}, shape.intermediate_size, shape.hidden_size}},
                         false)),
          down_(matrix(ops, "down_proj", w.down, {}, false, shape.hidden_size, shape.intermediate_size)) {
        const index d = shape.hidden_size;
        const part q{"q_proj", w.q, w.q_bias, shape.heads * shape.head_dim, d};
        const part k{"k_proj", w.k, w.k_bias, shape.kv_heads * shape.head_dim, d};
        const part v{"v_proj", w.v, w.v_bias, shape.kv_heads * shape.head_dim, d};
        if (stacking == projection::qkv) {
            qkv_.emplace(stack(ops, {q, k, v}, shape.attention_bias));
        } else {
            q_.emplace(stack(ops, {q}, shape.attention_bias));
            kv_.emplace(stack(ops, {k, v}, shape.attention_bias));
        }
        if (shape.qk_norm) {
            q_norm_.emplace(norm(ops, "q_norm", w.q_norm, shape.head_dim));
            k_norm_.emplace(norm(ops, "k_norm", w.k_norm, shape.head_dim));
        }
    }

    /// q, k and v of the rows in hidden(m), normalised and rotated, into the workspace.
    void project(const Ops& ops, const transformer_shape& shape, const numerics::rope_table& table, index position,
                 layer_workspace<Ops>& work, index m) const {
        ops.rms_norm(work.hidden(m), input_norm_, shape.rms_norm_eps, work.normed(m));
        if (qkv_) {
            ops.linear(work.normed(m), *qkv_, work.qkv(m));
        } else {
            ops.linear(work.normed(m), *q_, work.q(m));
            ops.linear(work.normed(m), *kv_, work.kv(m));
        }
        if (q_norm_) {
            ops.rms_norm_heads(work.q(m), *q_norm_, shape.rms_norm_eps, shape.head_dim);
        }
        ops.rope(work.q(m), shape.head_dim, table, position);
        finish_keys(ops, shape, table, position, work.k(m));
    }

    /// K and V of context rows C, which do not pass the input norm: (c, 2*g*e), keys normalised and rotated.
    void inject(const Ops& ops, const transformer_shape& shape, const numerics::rope_table& table, index position,
                matrix_view<const scalar, space> context, rows kv) const {
        ops.linear(context, *kv_, kv);
        finish_keys(ops, shape, table, position, kv.columns(0, kv.cols() / 2));
    }

    /// The rest of inject() for rows that k and v of context_projections() gave.
    void finish_context(const Ops& ops, const transformer_shape& shape, const numerics::rope_table& table,
                        index position, rows kv) const {
        finish_keys(ops, shape, table, position, kv.columns(0, kv.cols() / 2));
    }

    /// k_proj and v_proj of all layers, one behind the other: a single product for all K and V rows of context.
    static linear_weights context_projections(const Ops& ops, const transformer_shape& shape,
                                              std::span<const layer_weights> layers) {
        std::vector<part> parts;
        for (const layer_weights& w : layers) {
            parts.push_back({"k_proj", w.k, w.k_bias, shape.kv_heads * shape.head_dim, shape.hidden_size});
            parts.push_back({"v_proj", w.v, w.v_bias, shape.kv_heads * shape.head_dim, shape.hidden_size});
        }
        return stack(ops, parts, shape.attention_bias);
    }

    /// Adds attention's output projection and then the MLP to hidden(m).
    void finish(const Ops& ops, const transformer_shape& shape, layer_workspace<Ops>& work, index m) const {
        ops.linear(work.attended(m), o_, work.out(m));
        ops.add(work.hidden(m), work.out(m));
        ops.rms_norm(work.hidden(m), post_norm_, shape.rms_norm_eps, work.normed(m));
        ops.linear(work.normed(m), gate_up_, work.gate_up(m));
        ops.silu_mul(work.gate_up(m), work.activated(m));
        ops.linear(work.activated(m), down_, work.out(m));
        ops.add(work.hidden(m), work.out(m));
    }

    static vector_weights norm(const Ops& ops, const char* name, const tensor_view& w, index size) {
        detail::check_tensor(name, w, 1, size);
        return ops.pack_vector(w);
    }

    static linear_weights matrix(const Ops& ops, const char* name, const tensor_view& w, const tensor_view& bias,
                                 bool has_bias, index out, index in) {
        return stack(ops, {{name, w, bias, out, in}}, has_bias);
    }

private:
    struct part {
        const char* name;
        tensor_view weights;
        tensor_view bias;
        index out;
        index in;
    };

    static linear_weights stack(const Ops& ops, const std::vector<part>& parts, bool has_bias) {
        std::vector<tensor_view> weights;
        std::vector<tensor_view> biases;
        for (const part& p : parts) {
            detail::check_tensor(p.name, p.weights, p.out, p.in);
            weights.push_back(p.weights);
            if (has_bias) {
                detail::check_tensor(p.name, p.bias, 1, p.out);
                biases.push_back(p.bias);
            }
        }
        return ops.pack(weights, biases);
    }

    void finish_keys(const Ops& ops, const transformer_shape& shape, const numerics::rope_table& table, index position,
                     rows keys) const {
        if (k_norm_) {
            ops.rms_norm_heads(keys, *k_norm_, shape.rms_norm_eps, shape.head_dim);
        }
        ops.rope(keys, shape.head_dim, table, position);
    }

    vector_weights input_norm_;
    vector_weights post_norm_;
    linear_weights o_;
    linear_weights gate_up_;
    linear_weights down_;
    std::optional<linear_weights> qkv_;
    std::optional<linear_weights> q_;
    std::optional<linear_weights> kv_;
    std::optional<vector_weights> q_norm_;
    std::optional<vector_weights> k_norm_;
};

/// Writes K and V rows of one layer behind what is cached: by the backend where that is its business.
template <class Ops, class Cache, class Rows>
void write_rows(const Ops& ops, Cache& cache, index layer, index position, Rows keys, Rows values) {
    if constexpr (requires { ops.write(cache, layer, position, keys, values); }) {
        ops.write(cache, layer, position, keys, values);
    } else {
        constexpr bool writes = requires { cache.write(layer, position, keys, values); };
        static_assert(writes, "transformer_cache: write(layer, position, keys, values) must store rows of one layer");
        cache.write(layer, position, keys, values);
    }
}

/// Attention of the m projected rows over a layer of the cache, their own K and V written behind what is cached.
template <class Ops, class Attention, class Cache>
void attend_rows(const Ops& ops, const Attention& attention, const transformer_shape& shape, index layer, Cache& cache,
                 index position, layer_workspace<Ops>& work, index m) {
    write_rows(ops, cache, layer, position, work.k(m), work.v(m));
    attention.attend({.queries = work.q(m),
                      .cache = cache.layer(layer, position + m),
                      .out = work.attended(m),
                      .heads = shape.heads,
                      .kv_heads = shape.kv_heads,
                      .head_dim = shape.head_dim,
                      .position = position,
                      .mask = shape.masks[static_cast<std::size_t>(layer)],
                      .scale = numerics::attention_scale(shape.head_dim)});
}

DFLASH_END_NAMESPACE
