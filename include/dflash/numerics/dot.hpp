// The dot product of every matrix product and of q.k: chunks of 128, one fma chain each, chunk sums added in order.
//
// The order is part of the meaning. A backend may run many of these side by side; it may not reorder one.
#pragma once

#include <dflash/numerics/convert.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// Elements of one unbroken fma chain, counted from element 0 of the reduced axis.
inline constexpr index dot_chunk = 128;

namespace detail {

/// dot_chain over a(i) and b(i), for operands that are computed on the way.
template <class First, class Second>
DFLASH_HD float dot_chain_of(First a, Second b, index n) {
    float total = 0.0F;
    for (index start = 0; start < n; start += dot_chunk) {
        const index end = start + dot_chunk < n ? start + dot_chunk : n;
        float chain = 0.0F;
        for (index i = start; i < end; ++i) {
            chain = fma(a(i), b(i), chain);
        }
        total = total + chain;
    }
    return total;
}

template <class T>
struct widened_row {
    const T* data;
    DFLASH_HD float operator()(index i) const { return to_float(data[i]); }
};

}  // namespace detail

/// Sum of a[i] * b[i], elements widened exactly to f32. n = 0 gives +0.
template <class A, class B>
DFLASH_HD float dot_chain(const A* a, const B* b, index n) {
    return detail::dot_chain_of(detail::widened_row<A>{a}, detail::widened_row<B>{b}, n);
}

}  // namespace numerics

DFLASH_END_NAMESPACE
