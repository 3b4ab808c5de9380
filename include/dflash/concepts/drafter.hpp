// What proposes tokens. A drafter may be wrong in every way but one: it may not touch the target's cache.
//
// Axioms
//   1. Losslessness never depends on a drafter: any ids inside the vocabulary are a legal proposal, also none.
//   2. propose(request, out) writes at most request.block - 1 ids, the guesses for the positions after the anchor
//      request.committed.back(), and leaves context_length() as it is.
//   3. commit(tokens, features) tells the drafter of newly cached positions, in order, each exactly once: tokens are
//      those at positions context_length() .. context_length() + tokens.size() - 1, features their tapped hidden rows
//      (no rows when feature_size() is 0). It adds tokens.size() to context_length().
//   4. crop(n) forgets every position from n on, bit for bit as if it had never been committed; reset() is crop(0) and
//      also forgets everything a former sequence left behind.
//   5. max_positions() bounds the sequence the drafter can follow; past it the decoder goes on without drafts.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <dflash/concepts/model.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// The key of all randomness of one sequence. Noise is a function of (seed, absolute position, token id).
struct noise_key {
    std::uint64_t seed = 0;
};

/// What the decoder asks of a drafter.
struct draft_request {
    std::span<const token_id> committed;  ///< prompt and committed tokens; the last one is the anchor
    index block = 1;                      ///< anchor + drafts, so at most block - 1 ids are wanted
    noise_key noise;                      ///< for drafts that are drawn, not argmax
};

/// Where a drafter writes its guesses.
template <class Space = host_space>
struct draft_output {
    std::span<token_id> tokens;     ///< room for block - 1 ids
    index count = 0;                ///< how many were written
    matrix_view<float, Space> law;  ///< (count, v) the law each was drawn from; no rows: ids are not drawn
};

template <class T, class Model>
concept drafter_for =
    requires(T& drafter, const T& const_drafter, const draft_request& request, draft_output<typename Model::space>& out,
             std::span<const token_id> tokens, matrix_view<const float, typename Model::space> features, index n) {
        { const_drafter.feature_size() } -> std::convertible_to<index>;
        { const_drafter.context_length() } -> std::convertible_to<index>;
        { const_drafter.max_positions() } -> std::convertible_to<index>;
        drafter.reserve(n);
        drafter.propose(request, out);
        drafter.commit(tokens, features);
        drafter.crop(n);
        drafter.reset();
    };

/// Checks each requirement with a sentence of its own. `static_assert(drafter_check<T, Model>());`
template <class T, class Model>
consteval bool drafter_check() {
    using space = typename Model::space;
    static_assert(
        requires(const T& d) {
            { d.feature_size() } -> std::convertible_to<index>;
        }, "drafter: feature_size() const must return the width of a feature row, 0 when it wants none");
    static_assert(
        requires(const T& d) {
            { d.context_length() } -> std::convertible_to<index>;
        }, "drafter: context_length() const must return how many positions were committed to it");
    static_assert(
        requires(const T& d) {
            { d.max_positions() } -> std::convertible_to<index>;
        }, "drafter: max_positions() const must return the longest sequence it can follow");
    static_assert(
        requires(T& d, index n) { d.reserve(n); },
        "drafter: reserve(n) must make room for n positions before the first round");
    static_assert(
        requires(T& d, const draft_request& r, draft_output<space>& out) { d.propose(r, out); },
        "drafter: propose(const draft_request&, draft_output<space>&) must write at most block - 1 ids");
    static_assert(
        requires(T& d, std::span<const token_id> t, matrix_view<const float, space> f) { d.commit(t, f); },
        "drafter: commit(tokens, features) must take newly committed positions");
    static_assert(requires(T& d, index n) { d.crop(n); }, "drafter: crop(n) must forget every position from n on");
    static_assert(requires(T& d) { d.reset(); }, "drafter: reset() must forget everything");
    return drafter_for<T, Model>;
}

DFLASH_END_NAMESPACE
