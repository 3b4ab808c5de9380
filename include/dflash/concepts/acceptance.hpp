// What decides how many drafts stand.
//
// Axioms
//   1. accept(call, sampler) looks at rows 0, 1, ... in order and at no row after the one that ends the round: row i of
//      the logits is the law of position call.position + i, and drafts[i] is the guess for that position.
//   2. verdict.accepted is the number of leading drafts that stand. Unless a row was not finite, verdict.next is one
//      more token, from the row after the last accepted draft.
//   3. A row that holds NaN or infinity is never sampled: bad_row names it, and the drafts before it stand. The same
//      holds for a row from which the sampler has no token left, with fault == row_fault::nothing_left.
//   4. With lossless == true the stream of committed tokens follows the law of serial decoding with the same sampler.
//      `same_tokens` says more: they are the very tokens.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <dflash/concepts/drafter.hpp>
#include <dflash/concepts/sampler.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// One block, drafted and verified.
template <class Space = host_space>
struct accept_call {
    std::span<const token_id> drafts;        ///< n guesses, n >= 0
    matrix_view<const float, Space> logits;  ///< (n + 1, v) the target's rows
    dflash::draft_law<Space> draft_law;      ///< of each draft, or no rows when they were not drawn
    index position = 0;                      ///< the position row 0 is the law of
    noise_key noise;                         ///< accept and redraw noise derive their own streams from it
};

/// Why a row cannot be used.
enum class row_fault : std::uint8_t {
    not_finite,    ///< it holds NaN or infinity
    nothing_left,  ///< every token is forbidden
};

/// The outcome of one block, a few integers, so that it can be decided where the logits are.
struct verdict {
    index accepted = 0;                       ///< leading drafts that stand
    token_id next = -1;                       ///< the target's own token after them; meaningless when bad_row >= 0
    index bad_row = -1;                       ///< row that was needed and cannot be used, or -1
    row_fault fault = row_fault::not_finite;  ///< why, where bad_row >= 0
};

template <class T, class Sampler, class Space>
concept acceptance_rule = requires(const T& rule, const accept_call<Space>& call, Sampler& sampler) {
    { T::lossless } -> std::convertible_to<bool>;
    { rule.accept(call, sampler) } -> std::same_as<verdict>;
};

/// Checks each requirement with a sentence of its own. `static_assert(acceptance_check<T, Sampler, Space>());`
template <class T, class Sampler, class Space>
consteval bool acceptance_check() {
    static_assert(
        requires {
            { T::lossless } -> std::convertible_to<bool>;
        }, "acceptance_rule: static constexpr bool lossless must say whether the law of the target is kept");
    static_assert(
        requires(const T& r, const accept_call<Space>& c, Sampler& s) {
            { r.accept(c, s) } -> std::same_as<verdict>;
        }, "acceptance_rule: accept(const accept_call<Space>&, Sampler&) const must return a verdict");
    return acceptance_rule<T, Sampler, Space>;
}

DFLASH_END_NAMESPACE
