// A door for backends that can record the operations of a forward and replay them as one.
//
// A forward with the same key launches the same operations on the same memory; only the position differs. Backends
// without replay() never notice.
#pragma once

#include <cstdint>
#include <type_traits>

#include <dflash/concepts/observer.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Everything but the position that a forward depends on. Pointers are compared, never dereferenced.
struct replay_key {
    std::uint64_t model = 0;   ///< its identity
    std::uint64_t cache = 0;   ///< see identity_of
    const void* in = nullptr;  ///< tokens, embeddings or features
    const void* out = nullptr;
    const void* features = nullptr;
    index rows = 0;
    index logits = 0;  ///< rows of logits
    index in_stride = 0;
    index out_stride = 0;
    index features_stride = 0;
    index workspace = 0;      ///< rows that the model's own memory has room for; it moves when that grows
    std::uint64_t table = 0;  ///< which rotary table

    friend bool operator==(const replay_key&, const replay_key&) = default;
};

/// What tells one cache's memory from another's, for caches that can be replayed over. Not an address: caches come and
/// go, and memory of a new one may begin where that of an old one did.
template <class Cache>
[[nodiscard]] std::uint64_t identity_of(const Cache& cache) {
    if constexpr (requires { cache.identity(); }) {
        return cache.identity();
    } else {
        return 0;
    }
}

/// Calls body, or lets the backend replay what it did before under the same key. `body` must use the backend alone.
/// An observer that wants to see what happens on the way gets no replay.
template <class Observer, class Ops, class Body>
void replayed(const Ops& ops, const replay_key& key, index position, Body body) {
    if constexpr (std::is_same_v<Observer, no_observer> && requires { ops.replay(key, position, body); }) {
        ops.replay(key, position, body);
    } else {
        body();
    }
}

DFLASH_END_NAMESPACE
