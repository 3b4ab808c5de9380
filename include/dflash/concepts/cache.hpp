// What a sequence's cache must be able to do for a decoder: know its length and forget its newest positions.
//
// Axioms
//   1. A new cache has length 0. Only the model that made it appends to it, one position per token of a forward.
//   2. crop(n) with 0 <= n <= length() keeps positions 0 .. n - 1 bit for bit and makes length() equal n.
//   3. Crop then append equals never having appended: no later result depends on what was cropped.
//   4. length() <= capacity(); a forward that would exceed the capacity raises and leaves the cache as it was.
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

DFLASH_END_NAMESPACE
