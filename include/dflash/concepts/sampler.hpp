// What turns a row of logits into a token.
//
// Axioms (token_sampler)
//   1. pick(logits, position) is pure: the same logits and position give the same token, whatever was picked before.
//      `position` is the absolute position the token will occupy; noise is a function of (seed, position, token id).
//   2. The token is inside 0 .. v - 1, or no_token where every token is forbidden.
//   Optional: reseed(noise_key). A decoder calls it with the noise key of the sequence before the first pick.
//
// Axioms (law_sampler): a sampler whose law can be asked for
//   scores(logits, out) writes the law of pick() as scores, in proportion to e^score, -inf for what is never picked;
//   the largest is 0. It returns false, and out means nothing, where every token is forbidden.
//
// Axioms (sequence_sampler): a sampler whose law depends on the tokens before (penalties, grammars)
//   3. fork() returns a copy that can be advanced without the original noticing.
//   4. advance(token) tells it of the next token of the sequence; pick then answers for the position after it.
//   5. A decoder advances the committed sampler with committed tokens only, in order, once, and a fork with the drafts
//      that were accepted before the row at hand: it never sees a rejected token.
//   Optional: start(). A decoder calls it once behind the prompt, before the first token is chosen.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>

#include <dflash/concepts/noise.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

template <class T>
concept token_sampler = requires(const T& sampler, std::span<const float> logits, index position) {
    { sampler.pick(logits, position) } -> std::same_as<token_id>;
};

template <class T>
concept law_sampler =
    token_sampler<T> && requires(const T& sampler, std::span<const float> logits, std::span<float> out) {
        { sampler.scores(logits, out) } -> std::same_as<bool>;
    };

template <class T>
concept sequence_sampler = token_sampler<T> && requires(T& sampler, const T& const_sampler, token_id token) {
    { const_sampler.fork() } -> std::same_as<T>;
    sampler.advance(token);
};

/// Checks each requirement with a sentence of its own. `static_assert(token_sampler_check<T>());`
template <class T>
consteval bool token_sampler_check() {
    static_assert(!std::is_const_v<T>,
                  "token_sampler: name the sampler's type without const (a const one cannot learn)");
    static_assert(
        !requires(T& s, token_id token) { s.advance(token); } || sequence_sampler<T>,
        "sequence_sampler: a sampler with advance(token) needs fork() const, which returns one of its type");
    // A hook that does not fit would never be called, and nobody would hear of it.
    static_assert(
        !requires { &T::reseed; } || requires(T& s, const noise_key& key) { s.reseed(key); },
        "token_sampler: reseed must be callable with a noise_key");
    static_assert(
        !requires { &T::start; } || requires(T& s) { s.start(); },
        "token_sampler: start must be callable with nothing");
    static_assert(
        requires(const T& s, std::span<const float> logits, index position) {
            { s.pick(logits, position) } -> std::same_as<token_id>;
        }, "token_sampler: pick(std::span<const float> logits, index position) const must return a token_id");
    return token_sampler<T>;
}

DFLASH_END_NAMESPACE
