// What the big model must be able to do: extend a sequence by m tokens and give the law of what follows each of them.
//
// Axioms (target_model)
//   1. forward(tokens, cache, out) appends tokens.size() = m >= 1 positions to the cache, starting at cache.length().
//   2. Row i of the logits belongs to the last out.logits.rows() = r tokens (0 <= r <= m): row i is the law of the
//      token that follows token m - r + i, given everything before it. It depends on nothing to its right. All of it
//      is finite: what must not be chosen is forbidden by a bias or a constraint of the sampler, not by -inf here. A
//      row that is not finite ends decoding with numeric_error when its token is due.
//   3. With guarantee >= batch_invariant: one forward of m tokens leaves the bits, in logits, features and cache, of m
//      forwards of one token.
//   4. forward raises before it changes the cache, or not at all.
//   5. vocab_size() and max_positions() never change. max_positions() bounds the whole sequence, prompt included.
//
// Axioms (feature_target): a model a DFlash draft can listen to
//   6. With out.features.rows() = m (it is m or 0), row i holds the tapped hidden states of token i, concatenated in
//      the order of the taps: copies, every row, every prefill chunk.
//   7. embed(ids, out) gives the embedding rows, head(hidden, out) the logits of normalised hidden rows, both with the
//      bits the model's own forward uses.
#pragma once

#include <concepts>
#include <span>

#include <dflash/concepts/cache.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Where a forward writes. Views with no rows ask for nothing.
template <class Space = host_space>
struct forward_output {
    matrix_view<float, Space> logits;    // (r, v), the last r tokens, 0 <= r <= m
    matrix_view<float, Space> features;  // (m, k*d) or no rows
};

template <class T>
concept target_model = requires(T& model, const T& const_model, std::span<const token_id> tokens,
                                typename T::cache_type& cache, const forward_output<typename T::space>& out, index n) {
    typename T::space;
    requires kv_cache<typename T::cache_type>;
    { T::guarantee } -> std::convertible_to<determinism>;
    { const_model.vocab_size() } -> std::convertible_to<index>;
    { const_model.max_positions() } -> std::convertible_to<index>;
    { model.make_cache(n) } -> std::same_as<typename T::cache_type>;
    model.forward(tokens, cache, out);
};

template <class T>
concept feature_target = target_model<T> && requires(T& model, const T& const_model, std::span<const token_id> ids,
                                                     matrix_view<const float, typename T::space> hidden,
                                                     matrix_view<float, typename T::space> out) {
    { const_model.hidden_size() } -> std::convertible_to<index>;
    { const_model.feature_size() } -> std::convertible_to<index>;
    model.embed(ids, out);
    model.head(hidden, out);
};

/// Checks each requirement with a sentence of its own. `static_assert(target_model_check<T>());`
template <class T>
consteval bool target_model_check() {
    static_assert(
        requires { typename T::space; }, "target_model: name the memory space, e.g. using space = host_space");
    static_assert(requires { typename T::cache_type; }, "target_model: name the cache with using cache_type = ...");
    static_assert(
        requires {
            { T::guarantee } -> std::convertible_to<determinism>;
        }, "target_model: state what can be relied on, static constexpr determinism guarantee = ...");
    static_assert(
        requires(const T& m) {
            { m.vocab_size() } -> std::convertible_to<index>;
        }, "target_model: vocab_size() const must return the number of logits of a row");
    static_assert(
        requires(const T& m) {
            { m.max_positions() } -> std::convertible_to<index>;
        }, "target_model: max_positions() const must return the longest sequence the model can hold");
    if constexpr (requires {
                      typename T::cache_type;
                      typename T::space;
                  }) {
        static_assert(kv_cache_check<typename T::cache_type>());
        static_assert(
            requires(T& m, index n) {
                { m.make_cache(n) } -> std::same_as<typename T::cache_type>;
            }, "target_model: make_cache(n) must return a cache_type with room for n positions");
        static_assert(
            requires(T& m, std::span<const token_id> tokens, typename T::cache_type& cache,
                     const forward_output<typename T::space>& out) { m.forward(tokens, cache, out); },
            "target_model: forward(std::span<const token_id>, cache_type&, const forward_output<space>&)");
    }
    return target_model<T>;
}

/// Checks what a DFlash draft needs of its target, each with a sentence of its own.
template <class T>
consteval bool feature_target_check() {
    static_assert(target_model_check<T>());
    static_assert(
        requires(const T& m) {
            { m.hidden_size() } -> std::convertible_to<index>;
        }, "feature_target: hidden_size() const must return the width of the residual stream");
    static_assert(
        requires(const T& m) {
            { m.feature_size() } -> std::convertible_to<index>;
        }, "feature_target: feature_size() const must return taps * hidden_size");
    static_assert(
        requires(T& m, std::span<const token_id> ids, matrix_view<float, typename T::space> out) { m.embed(ids, out); },
        "feature_target: embed(ids, out) must write one embedding row per id");
    static_assert(
        requires(T& m, matrix_view<const float, typename T::space> hidden, matrix_view<float, typename T::space> out) {
            m.head(hidden, out);
        }, "feature_target: head(hidden, out) must write one row of logits per hidden row");
    return feature_target<T>;
}

DFLASH_END_NAMESPACE
