// Which keys a query may see, and what computes attention over a layer's cache.
//
// A mask is a rule, not a tensor. Distances are between absolute positions. The visible keys of a query are an
// interval, so that a kernel can leave out what nobody sees.
//
// Axioms (attention_backend)
//   1. Row i of `out` is softmax(q_i . k_j * scale) v_j over the keys j that mask.keys(position + i, length) names; it
//      depends on that row and those keys, and on nothing else: not on other rows, nor on what invisible rows hold.
//   2. Query head h reads KV head h / (heads / kv_heads).
#pragma once

#include <algorithm>
#include <concepts>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Keys first .. last - 1.
struct key_range {
    index first = 0;
    index last = 0;
};

/// What a query may see. causal: no key after the query. window w > 0: only keys closer than w.
struct mask_rule {
    bool causal = true;
    index window = 0;  ///< 0: no window

    /// The visible keys of the query at absolute position `query` when `length` keys exist.
    [[nodiscard]] constexpr key_range keys(index query, index length) const noexcept {
        const index first = window > 0 ? (std::max)(index{0}, query - window + 1) : 0;
        const index last = causal ? query + 1 : (window > 0 ? query + window : length);
        return {(std::min)(first, length), (std::min)(last, length)};
    }

    [[nodiscard]] constexpr bool visible(index query, index key) const noexcept {
        return (!causal || key <= query) && (window <= 0 || (query - key < window && (causal || key - query < window)));
    }

    friend constexpr bool operator==(const mask_rule&, const mask_rule&) = default;
};

/// One layer's attention for m query rows at positions position .. position + m - 1.
template <class Scalar, class KeyValues, class Space = host_space>
struct attention_call {
    matrix_view<const Scalar, Space> queries;  // (m, h*e) rotated and normalised, not scaled
    KeyValues cache;                           // one layer's keys and values, with length()
    matrix_view<Scalar, Space> out;            // (m, h*e)
    index heads = 0;
    index kv_heads = 0;
    index head_dim = 0;
    index position = 0;
    mask_rule mask;
    float scale = 0;
};

template <class T, class Scalar, class KeyValues>
concept attention_backend =
    requires(const T& backend, const attention_call<Scalar, KeyValues, typename T::space>& call) {
        { T::guarantee } -> std::convertible_to<determinism>;
        backend.attend(call);
    };

DFLASH_END_NAMESPACE
