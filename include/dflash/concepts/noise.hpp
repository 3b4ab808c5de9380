// Where chance comes from. Every random choice of the library goes through a noise source, so that a test can walk all
// choices instead of drawing some, and a run can be replayed from one number.
//
// Axioms
//   1. A choice is a function of (key, stream, position) and of the law it is asked for, of nothing else: asked again,
//   in
//      any order, it is the same.
//   2. draw(key, stream, position, scores) follows the law proportional to e^score, weighted() the law proportional to
//      the weight; both give an index of the span, never one whose score is -inf or whose weight is 0, and no_token
//      when there is no other. happens(..., p) is true with probability p: never for p <= 0, always for p >= 1.
//   3. Choices of different streams or different positions are independent. Two draws of one stream at one position
//      use the same noise: with equal laws they are equal, with similar laws mostly (this is coupling).
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// The key of all randomness of one sequence.
struct noise_key {
    std::uint64_t seed = 0;  ///< every value is a seed like any other, 0 too
};

/// What a choice is for.
enum class noise_stream : std::uint32_t {
    token,   ///< the target's own draw; a coupled draft uses it, too
    draft,   ///< a draft drawn on its own
    accept,  ///< whether a draft stands
    redraw,  ///< the token in place of a draft that does not
};

/// The answer of a draw when no token has any probability left.
inline constexpr token_id no_token = -1;

template <class T>
concept noise_source = requires(const T& noise, noise_key key, noise_stream stream, index position,
                                std::span<const float> scores, std::span<const double> weights, double p) {
    { noise.draw(key, stream, position, scores) } -> std::same_as<token_id>;
    { noise.weighted(key, stream, position, weights) } -> std::same_as<token_id>;
    { noise.happens(key, stream, position, p) } -> std::same_as<bool>;
};

DFLASH_END_NAMESPACE
