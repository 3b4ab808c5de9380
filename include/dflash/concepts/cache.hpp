// What a sequence's cache must be able to do for a decoder: know its length and forget its newest positions.
//
// Axioms
//   1. A new cache has length 0. Only the model that made it appends to it, one position per token of a forward.
//   2. crop(n) with 0 <= n <= length() keeps positions 0 .. n - 1 bit for bit and makes length() equal n.
//   3. Crop then append equals never having appended: no later result depends on what was cropped.
//   4. length() <= capacity(); a forward that would exceed the capacity raises and leaves the cache as it was.
//   5. crop does not raise: it is what undoes a step that did.
//
// Axioms (transformer_cache): a cache that target_transformer and draft_transformer can keep K and V rows in
//   6. It is made from (layers, kv_heads, head_dim, capacity), in this order.
//   7. write(layer, position, keys, values) stores rows of one layer, which count once extend(length) has covered them.
//      A backend that has its own write(cache, layer, position, keys, values) is asked instead.
//   8. layer(l, length) is what the attention backend reads: `length` positions of layer l, rows included that are
//      written and not extended over yet. It knows length(), kv_heads() and head_dim().
//   9. reserve(n) makes capacity() at least n and keeps all positions bit for bit; it raises and changes nothing, or
//      does it.
//
// State that cannot be rolled back by truncation (recurrent layers, convolutions) does not satisfy axiom 3: such a
// cache must not offer crop. Give it crop through snapshots, or it is refused here.
#pragma once

#include <concepts>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

template <class T>
concept kv_cache = std::movable<T> && requires(T& cache, const T& const_cache, index n) {
    { const_cache.length() } -> std::convertible_to<index>;
    { const_cache.capacity() } -> std::convertible_to<index>;
    cache.crop(n);
};

template <class T>
concept transformer_cache = kv_cache<T> && std::constructible_from<T, index, index, index, index> &&
                            requires(T& cache, const T& const_cache, index n) {
                                cache.extend(n);
                                cache.reserve(n);
                                { const_cache.layer(n, n).length() } -> std::convertible_to<index>;
                                { const_cache.layer(n, n).kv_heads() } -> std::convertible_to<index>;
                                { const_cache.layer(n, n).head_dim() } -> std::convertible_to<index>;
                            };

/// Checks each requirement with a sentence of its own. `static_assert(kv_cache_check<T>());`
template <class T>
consteval bool kv_cache_check() {
    static_assert(std::movable<T>, "kv_cache: the cache must be movable");
    static_assert(
        requires(const T& c) {
            { c.length() } -> std::convertible_to<index>;
        }, "kv_cache: length() const must return the number of cached positions");
    static_assert(
        requires(const T& c) {
            { c.capacity() } -> std::convertible_to<index>;
        }, "kv_cache: capacity() const must return the number of positions there is room for");
    static_assert(
        requires(T& c, index n) { c.crop(n); },
        "kv_cache: crop(n) must forget every position from n on; a cache that cannot be truncated (recurrent "
        "state) cannot be used for speculative decoding unless crop restores a snapshot");
    return kv_cache<T>;
}

/// The same for a cache of the transformers. `static_assert(transformer_cache_check<T>());`
template <class T>
consteval bool transformer_cache_check() {
    static_assert(kv_cache_check<T>());
    static_assert(std::constructible_from<T, index, index, index, index>,
                  "transformer_cache: it is made from (layers, kv_heads, head_dim, capacity)");
    static_assert(
        requires(T& c, index n) { c.extend(n); },
        "transformer_cache: extend(length) must make written positions count");
    static_assert(
        requires(T& c, index n) { c.reserve(n); },
        "transformer_cache: reserve(n) must make room for n positions and keep what is there");
    static_assert(
        requires(const T& c, index n) {
            { c.layer(n, n).length() } -> std::convertible_to<index>;
            { c.layer(n, n).kv_heads() } -> std::convertible_to<index>;
            { c.layer(n, n).head_dim() } -> std::convertible_to<index>;
        }, "transformer_cache: layer(l, length) const must return a view with length(), kv_heads() and head_dim()");
    return transformer_cache<T>;
}

DFLASH_END_NAMESPACE
