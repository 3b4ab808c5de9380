// Horner's scheme in fma over a table of frozen constants, unrolled at compile time.
#pragma once

#include <type_traits>

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics::detail {

/// Table[First] + x (Table[First + 1] + x (...)), one fma per step, from the last constant down.
///
/// The table is a template argument because device code can read the elements of a host constant only as constant
/// expressions.
template <const auto& Table, int First, class T>
DFLASH_HD inline T horner_from(T x) {
    constexpr T constant = Table[First];
    constexpr int size = static_cast<int>(std::extent_v<std::remove_reference_t<decltype(Table)>>);
    if constexpr (First + 1 == size) {
        return constant;
    } else {
        return fma(horner_from<Table, First + 1>(x), x, constant);
    }
}

/// Table[0] + Table[1] x + Table[2] x^2 + ...
template <const auto& Table, class T>
DFLASH_HD inline T horner(T x) {
    return horner_from<Table, 0>(x);
}

}  // namespace numerics::detail

DFLASH_END_NAMESPACE
