// dflash::cuda::blas_lt on the simulator: the mathematics of cuBLASLt's product in orders of its own.
//
// One row is summed in double and rounded once, several rows in f32 in blocks of 16 from the last to the first: as on a
// device, a row's bits depend on how many rows come with it.
#pragma once

#include <algorithm>
#include <set>

#include <dflash/cuda/shim/runtime.hpp>
#include <dflash/numerics/convert.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

class blas_lt {
public:
    blas_lt() = default;
    blas_lt(const blas_lt&) = delete;
    blas_lt& operator=(const blas_lt&) = delete;

    void multiply(runtime::stream s, const product_shape& shape, const bf16* w, const bf16* x, float* y,
                  index y_stride) {
        if (s->capturing && !seen_.contains(shape)) {
            detail::refuse_product(shape, "matmul", "no algorithm was chosen before the capture");
        }
        seen_.insert(shape);
        shim::machine::instance().launch(s, [=] {
            for (index i = 0; i < shape.m; ++i) {
                for (index j = 0; j < shape.n; ++j) {
                    y[i * y_stride + j] = shape.m == 1 ? in_double(w + j * shape.k, x, shape.k)
                                                       : in_blocks(w + j * shape.k, x + i * shape.k, shape.k);
                }
            }
        });
    }

private:
    static float in_double(const bf16* a, const bf16* b, index k) {
        double sum = 0;
        for (index i = 0; i < k; ++i) {
            sum += static_cast<double>(numerics::to_float(a[i])) * static_cast<double>(numerics::to_float(b[i]));
        }
        return static_cast<float>(sum);
    }

    static float in_blocks(const bf16* a, const bf16* b, index k) {
        constexpr index block = 16;
        float sum = 0;
        for (index last = k; last > 0; last -= (std::min)(block, last)) {
            float part = 0;
            for (index i = (std::max)(index{0}, last - block); i < last; ++i) {
                part += numerics::to_float(a[i]) * numerics::to_float(b[i]);
            }
            sum += part;
        }
        return sum;
    }

    std::set<product_shape> seen_;
};

}  // namespace cuda

DFLASH_END_NAMESPACE
