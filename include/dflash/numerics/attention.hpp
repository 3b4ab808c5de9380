// Attention of one query row in one head, over logical positions 0 .. keys - 1.
//
// Chunks of 256 positions, each with its own maximum, joined in ascending order. A masked key and a key that was never
// there give the same bits. Nothing is allocated; which keys a row may see is the caller's rule.
#pragma once

#include <dflash/numerics/dot.hpp>
#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/sum.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// Logical positions of one chunk, counted from position 0 of the sequence.
inline constexpr index key_chunk = 256;

/// 1 / sqrt(head_dim), computed in f64 and rounded once. head_dim >= 1.
[[nodiscard]] DFLASH_HD inline float attention_scale(index head_dim) {
    return static_cast<float>(1.0 / sqrt(static_cast<double>(head_dim)));
}

namespace detail {

struct scaled_row {
    const float* data;
    float scale;
    DFLASH_HD float operator()(index i) const { return data[i] * scale; }
};

/// attend_row with values of a width of their own: `value(j)[d]` is element d of row j, d < value_dim.
template <class KeyRow, class ValueRow, class Visible>
void attend_row_of(const float* q, float scale, index head_dim, index value_dim, index keys, KeyRow key, ValueRow value,
                   Visible visible, float* out) {
    static_assert(key_chunk == sum_chunk, "the lanes of a chunk's sum are counted from the chunk's first position");
    float m = 0.0F;
    float l = 0.0F;
    bool started = false;
    for (index start = 0; start < keys; start += key_chunk) {
        const index count = keys - start < key_chunk ? keys - start : key_chunk;
        bool seen[key_chunk] = {};
        float p[key_chunk] = {};
        bool any = false;
        float m_c = 0.0F;
        for (index i = 0; i < count; ++i) {
            if (!visible(start + i)) {
                continue;
            }
            const float* k = key(start + i);
            p[i] = detail::dot_chain_of(detail::scaled_row{q, scale}, detail::widened_row<float>{k}, head_dim);
            m_c = !any || p[i] > m_c ? p[i] : m_c;
            seen[i] = true;
            any = true;
        }
        if (!any) {
            continue;  // whatever other rows see here, this row's result must not change
        }
        for (index i = 0; i < count; ++i) {
            p[i] = seen[i] ? exp(p[i] - m_c) : 0.0F;
        }
        const float l_c = sum_lanes(p, count);

        const float top = !started || m_c > m ? m_c : m;
        const float a = started ? exp(m - top) : 0.0F;
        const float b = exp(m_c - top);
        for (index d = 0; d < value_dim; ++d) {
            float chain = 0.0F;
            for (index i = 0; i < count; ++i) {
                if (seen[i]) {
                    chain = fma(p[i], value(start + i)[d], chain);
                }
            }
            const float o_c = 0.0F + chain;  // a chunk's sum starts at +0, like every total
            out[d] = started ? fma(out[d], a, o_c * b) : o_c;
        }
        l = started ? fma(l, a, l_c * b) : l_c;
        m = top;
        started = true;
    }
    DFLASH_EXPECTS(started, "attend_row: got 0 visible keys of ", keys, ", needs at least 1");
    for (index d = 0; d < value_dim; ++d) {
        out[d] = started ? divide(out[d], l) : 0.0F;
    }
}

/// The value row that is 1 at its own key and 0 elsewhere.
struct one_hot {
    index hot;
    DFLASH_HD float operator[](index d) const { return d == hot ? 1.0F : 0.0F; }
};

}  // namespace detail

/// out = softmax(scale q.k) v over the visible positions.
///
/// `key(j)` and `value(j)` return the row of logical position j (head_dim floats) and are called for visible j only;
/// `visible(j)` says whether this query sees position j. Rows of invisible positions are never read. At least one
/// position must be visible (contract_error in checked builds; otherwise out is all +0). out overlaps nothing.
/// Shapes: q (e), out (e).
template <class KeyRow, class ValueRow, class Visible>
void attend_row(const float* q, float scale, index head_dim, index keys, KeyRow key, ValueRow value, Visible visible,
                float* out) {
    detail::attend_row_of(q, scale, head_dim, head_dim, keys, key, value, visible, out);
}

/// weights[j] is how much of value row j is in the result of attend_row; +0 where this query does not see j.
///
/// No second formula: it is attend_row itself over values that are 1 at one key and 0 at the others, so its bits are
/// the specification's. For looking at, not for speed: keys * keys steps. Shapes: q (e), weights (keys). `key` and
/// `visible` as for attend_row.
template <class KeyRow, class Visible>
void attention_weights(const float* q, float scale, index head_dim, index keys, KeyRow key, Visible visible,
                       float* weights) {
    detail::attend_row_of(
        q, scale, head_dim, keys, keys, key, [](index j) { return detail::one_hot{j}; }, visible, weights);
}

}  // namespace numerics

DFLASH_END_NAMESPACE
