// The one product that the fast tier takes from cuBLASLt. Two implementations with the same names: cuBLASLt, and the
// simulator's.
//
//   blas_lt                                one per stream; errors of its methods are backend_error with the shape
//   multiply(s, shape, w, x, y, y_stride)  y = x w^T in stream s. Shapes: w (n, k) and x (m, k), bf16, without gaps;
//                                          y (m, n) f32. Products are exact, sums are f32 in an order of its own.
//
// How a shape is computed is chosen the first time it is asked for and then kept for the life of the object. A stream
// that is being captured takes shapes that have been multiplied before.
#pragma once

#include <compare>

#include <dflash/cuda/runtime.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// y (m, n) = x (m, k) w (n, k)^T
struct product_shape {
    index m = 0;
    index n = 0;
    index k = 0;

    friend auto operator<=>(const product_shape&, const product_shape&) = default;
};

/// k of a product is a multiple of this many elements, so that rows begin at multiples of 16 bytes.
inline constexpr index product_step = 8;

namespace detail {

/// Errors: always. `why` in the words of whoever refuses.
[[noreturn]] inline void refuse_product(const product_shape& shape, const char* what, const char* why) {
    raise<backend_error>("cublasLt: ", what, ": product of (", shape.m, ", ", shape.k, ") and (", shape.n, ", ",
                         shape.k, ") transposed: ", why);
}

}  // namespace detail

}  // namespace cuda

DFLASH_END_NAMESPACE

#if defined(__CUDACC__)
#include <dflash/cuda/blas_lt_device.hpp>
#else
#include <dflash/cuda/shim/blas_lt.hpp>
#endif
