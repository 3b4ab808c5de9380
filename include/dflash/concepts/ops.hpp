// What a backend must compute so that a transformer can be built from it.
//
// Axioms
//   1. Every row of a result depends on that row of the input, the weights and the row's position alone. With
//      guarantee >= batch_invariant, to the bit.
//   2. pack() copies: the stored bytes may go away afterwards. Weights keep their stored type or an exact widening.
//   3. Operations are const and may be called by one thread at a time per workspace; nothing is shared between objects.
//   4. Inputs and outputs may not overlap unless said so.
//
//   pack(parts, biases)        stacks matrices (out_i, in) along out into one linear_weights; biases empty or one each
//   linear(x, w, y)            y(m, out) = x(m, in) w^T (+ bias)
//   gather(w, ids, y)          y(m, in) = rows ids of w, widened
//   pack_vector(t)             a norm's weights, widened
//   rms_norm(x, w, eps, y)     per row; y may be x
//   rms_norm_heads(x, w, eps, head_dim)   in place, per head of each row
//   rope(x, head_dim, table, position)    in place, half-split pairs, row i at position + i
//   silu_mul(gate_up, y)       y(m, n) = silu(gate) * up with gate_up (m, 2n) = [gate, up]
//   add(h, o)                  h += o
//   copy(x, y)                 between the backend's scalar and float, both ways
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <dflash/numerics/convert.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// A stored matrix: row-major (rows, cols), any alignment. A vector has one row. No rows: absent.
struct tensor_view {
    dtype type = dtype::f32;
    const std::byte* data = nullptr;
    index rows = 0;
    index cols = 0;

    [[nodiscard]] bool empty() const noexcept { return data == nullptr; }

    /// One element, widened exactly. Stored bytes need not be aligned.
    [[nodiscard]] float element(index row, index col) const noexcept {
        const std::byte* at = data + (row * cols + col) * size_of(type);
        if (type == dtype::f32) {
            float value = 0;
            std::memcpy(&value, at, sizeof value);
            return value;
        }
        std::uint16_t bits = 0;
        std::memcpy(&bits, at, sizeof bits);
        return type == dtype::bf16 ? numerics::to_float(bf16{bits}) : numerics::to_float(f16{bits});
    }
};

template <class T>
concept tensor_ops =
    requires(const T& ops, std::span<const tensor_view> parts, tensor_view vector, const typename T::linear_weights& w,
             const typename T::vector_weights& norm, matrix_view<const typename T::scalar, typename T::space> in,
             matrix_view<typename T::scalar, typename T::space> out,
             matrix_view<const float, typename T::space> float_in, matrix_view<float, typename T::space> float_out,
             std::span<const token_id> ids, float eps, index n, const numerics::rope_table& table) {
        { T::guarantee } -> std::convertible_to<determinism>;
        requires std::movable<typename T::linear_weights>;
        requires std::movable<typename T::vector_weights>;
        { w.rows() } -> std::convertible_to<index>;
        { w.cols() } -> std::convertible_to<index>;
        { ops.pack(parts, parts) } -> std::same_as<typename T::linear_weights>;
        { ops.pack_vector(vector) } -> std::same_as<typename T::vector_weights>;
        ops.linear(in, w, out);
        ops.gather(w, ids, out);
        ops.rms_norm(in, norm, eps, out);
        ops.rms_norm_heads(out, norm, eps, n);
        ops.rope(out, n, table, n);
        ops.silu_mul(in, out);
        ops.add(out, in);
        ops.copy(in, float_out);
        ops.copy(float_in, out);
    };

/// Checks the requirements of a backend, each with a sentence of its own. `static_assert(tensor_ops_check<T>());`
template <class T>
consteval bool tensor_ops_check() {
    using scalar = typename T::scalar;
    using space = typename T::space;
    using in = matrix_view<const scalar, space>;
    using out = matrix_view<scalar, space>;
    using weights = typename T::linear_weights;
    using vector = typename T::vector_weights;
    static_assert(
        requires {
            { T::guarantee } -> std::convertible_to<determinism>;
        }, "tensor_ops: static constexpr determinism guarantee must say what can be relied on");
    static_assert(
        requires(const T& o, std::span<const tensor_view> p) {
            { o.pack(p, p) } -> std::same_as<weights>;
        }, "tensor_ops: pack(span<const tensor_view> parts, span<const tensor_view> biases) -> linear_weights");
    static_assert(
        requires(const T& o, tensor_view t) {
            { o.pack_vector(t) } -> std::same_as<vector>;
        }, "tensor_ops: pack_vector(tensor_view) -> vector_weights");
    static_assert(
        requires(const T& o, in x, const weights& w, out y) { o.linear(x, w, y); },
        "tensor_ops: linear(x, weights, y)");
    static_assert(
        requires(const T& o, const weights& w, std::span<const token_id> ids, out y) { o.gather(w, ids, y); },
        "tensor_ops: gather(weights, ids, y)");
    static_assert(
        requires(const T& o, in x, const vector& w, out y) { o.rms_norm(x, w, 1e-6F, y); },
        "tensor_ops: rms_norm(x, weights, eps, y)");
    static_assert(
        requires(const T& o, out x, const vector& w) { o.rms_norm_heads(x, w, 1e-6F, index{1}); },
        "tensor_ops: rms_norm_heads(x, weights, eps, head_dim)");
    static_assert(
        requires(const T& o, out x, const numerics::rope_table& t) { o.rope(x, index{2}, t, index{0}); },
        "tensor_ops: rope(x, head_dim, table, position)");
    static_assert(
        requires(const T& o, in x, out y) {
            o.silu_mul(x, y);
            o.add(y, x);
        }, "tensor_ops: silu_mul(gate_up, y) and add(h, o)");
    return tensor_ops<T>;
}

DFLASH_END_NAMESPACE
