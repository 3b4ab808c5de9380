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
//      also forgets everything a former sequence left behind. Neither raises: they undo a round that did.
//   5. Drafts that are drawn come with the law each was drawn from, given the drafts before it. A draft that was not
//      committed leaves no trace in what is proposed later, since its noise may be used again.
//   6. max_positions() bounds the sequence the drafter can follow; past it the decoder goes on without drafts.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <dflash/concepts/model.hpp>
#include <dflash/concepts/noise.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// What the decoder asks of a drafter.
struct draft_request {
    std::span<const token_id> committed;  ///< prompt and committed tokens; the last one is the anchor
    index block = 1;                      ///< anchor + drafts, so at most block - 1 ids are wanted
    noise_key noise;                      ///< for drafts that are drawn, not argmax
};

/// Rows of (token, weight) entries, for laws that leave most tokens out.
struct sparse_rows {
    std::span<const index> begins;     ///< (n + 1): row i is entries begins[i] .. begins[i + 1] - 1
    std::span<const token_id> tokens;  ///< ascending within a row
    std::span<const float> weights;

    [[nodiscard]] index rows() const noexcept { return begins.empty() ? 0 : size_of(begins) - 1; }
};

/// The laws that drafts were drawn from: weights >= 0, in proportion to the probabilities, not normalised. Dense (n,
/// v), or sparse in host memory. No rows: the drafts were not drawn, each is as if drawn from a law with one token.
template <class Space = host_space>
struct draft_law {
    draft_law() = default;
    draft_law(matrix_view<float, Space> rows) : dense(rows) {}        // NOLINT(google-explicit-constructor)
    draft_law(matrix_view<const float, Space> rows) : dense(rows) {}  // NOLINT(google-explicit-constructor)
    draft_law(const sparse_rows& rows) : sparse(rows) {}              // NOLINT(google-explicit-constructor)

    [[nodiscard]] index rows() const noexcept { return sparse.rows() > 0 ? sparse.rows() : dense.rows(); }

    matrix_view<const float, Space> dense;
    sparse_rows sparse;
};

namespace detail {

/// Calls visit(token, weight) for every entry of row i of the laws.
template <class Visit>
void visit_law(const draft_law<>& law, index i, Visit visit) {
    if (law.sparse.rows() > 0) {
        const auto at = static_cast<std::size_t>(i);
        for (index e = law.sparse.begins[at]; e < law.sparse.begins[at + 1]; ++e) {
            visit(law.sparse.tokens[static_cast<std::size_t>(e)], law.sparse.weights[static_cast<std::size_t>(e)]);
        }
        return;
    }
    const std::span<const float> row = law.dense.row(i);
    for (std::size_t t = 0; t < row.size(); ++t) {
        visit(static_cast<token_id>(t), row[t]);
    }
}

}  // namespace detail

/// Where a drafter writes its guesses.
template <class Space = host_space>
struct draft_output {
    std::span<token_id> tokens;  ///< room for block - 1 ids
    index count = 0;             ///< how many were written
    draft_law<Space> law;        ///< of each of them, or no rows; memory of the drafter, valid until its next call
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
