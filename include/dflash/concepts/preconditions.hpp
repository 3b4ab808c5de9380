// What every backend asks of the arguments of an operation, with the same sentences. Costs nothing in unchecked builds.
//
// Shapes are those of concepts/ops.hpp and concepts/attention.hpp. Errors: contract_error.
#pragma once

#include <dflash/concepts/attention.hpp>
#include <dflash/contracts.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace expected {

template <class In, class Weights, class Out>
void linear([[maybe_unused]] const In& x, [[maybe_unused]] const Weights& w, [[maybe_unused]] const Out& y) {
    DFLASH_EXPECTS(x.cols() == w.cols() && y.cols() == w.rows() && x.rows() == y.rows(), "linear: x (", x.rows(), ", ",
                   x.cols(), ") and weights (", w.rows(), ", ", w.cols(), ") do not give y (", y.rows(), ", ", y.cols(),
                   ")");
}

template <class Weights, class Out>
void gather([[maybe_unused]] const Weights& w, [[maybe_unused]] index ids, [[maybe_unused]] const Out& y) {
    DFLASH_EXPECTS(y.rows() == ids && y.cols() == w.cols(), "gather: y is (", y.rows(), ", ", y.cols(), "), needs (",
                   ids, ", ", w.cols(), ")");
}

/// `weights`: how many the norm has.
template <class In, class Out>
void rms_norm([[maybe_unused]] const In& x, [[maybe_unused]] index weights, [[maybe_unused]] const Out& y) {
    DFLASH_EXPECTS(x.cols() == weights && y.cols() == x.cols() && y.rows() == x.rows(), "rms_norm: x (", x.rows(), ", ",
                   x.cols(), ") and ", weights, " weights do not give y (", y.rows(), ", ", y.cols(), ")");
}

template <class Rows>
void rms_norm_heads([[maybe_unused]] const Rows& x, [[maybe_unused]] index weights, [[maybe_unused]] index head_dim) {
    DFLASH_EXPECTS(head_dim > 0 && weights == head_dim && x.cols() % head_dim == 0, "rms_norm_heads: x has ", x.cols(),
                   " columns and ", weights, " weights, needs heads of ", head_dim);
}

template <class Rows>
void rope([[maybe_unused]] const Rows& x, [[maybe_unused]] index head_dim,
          [[maybe_unused]] const numerics::rope_table& table, [[maybe_unused]] index position) {
    DFLASH_EXPECTS(head_dim > 0 && head_dim == 2 * table.half() && x.cols() % head_dim == 0, "rope: x has ", x.cols(),
                   " columns and the table heads of ", 2 * table.half(), ", needs heads of ", head_dim);
    DFLASH_EXPECTS(position >= 0 && position + x.rows() <= table.positions(), "rope: positions ", position, " + ",
                   x.rows(), " are outside ", table.positions());
}

template <class In, class Out>
void silu_mul([[maybe_unused]] const In& gate_up, [[maybe_unused]] const Out& y) {
    DFLASH_EXPECTS(gate_up.cols() == 2 * y.cols() && gate_up.rows() == y.rows(), "silu_mul: gate_up (", gate_up.rows(),
                   ", ", gate_up.cols(), ") does not give y (", y.rows(), ", ", y.cols(), ")");
}

/// `what`: add or copy.
template <class In, class Out>
void same_shape([[maybe_unused]] const char* what, [[maybe_unused]] const In& x, [[maybe_unused]] const Out& y) {
    DFLASH_EXPECTS(x.rows() == y.rows() && x.cols() == y.cols(), what, ": (", x.rows(), ", ", x.cols(), ") and (",
                   y.rows(), ", ", y.cols(), ") differ");
}

/// Returns how many keys the rows see, all together.
template <class Call>
index attend(const Call& call) {
    DFLASH_EXPECTS(call.kv_heads > 0 && call.heads > 0 && call.heads % call.kv_heads == 0, "attend: ", call.heads,
                   " heads cannot share ", call.kv_heads, " KV heads");
    DFLASH_EXPECTS(call.cache.kv_heads() == call.kv_heads && call.cache.head_dim() == call.head_dim,
                   "attend: the cache has ", call.cache.kv_heads(), " KV heads of ", call.cache.head_dim(), ", needs ",
                   call.kv_heads, " of ", call.head_dim);
    DFLASH_EXPECTS(call.queries.cols() == call.heads * call.head_dim && call.out.cols() == call.queries.cols() &&
                       call.out.rows() == call.queries.rows(),
                   "attend: queries (", call.queries.rows(), ", ", call.queries.cols(), ") and out (", call.out.rows(),
                   ", ", call.out.cols(), ") need ", call.heads * call.head_dim, " columns");
    index seen = 0;
    for (index i = 0; i < call.queries.rows(); ++i) {
        const key_range keys = call.mask.keys(call.position + i, call.cache.length());
        DFLASH_EXPECTS(keys.first < keys.last, "attend: the query at position ", call.position + i, " sees no key of ",
                       call.cache.length());
        seen += keys.last - keys.first;
    }
    return seen;
}

}  // namespace expected
DFLASH_END_NAMESPACE
