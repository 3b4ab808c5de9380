// dflash::cuda::blas_lt on cuBLASLt. Programs link cublasLt.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <dflash/cuda/blas_lt.hpp>
#include <dflash/cuda/memory.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

class blas_lt {
public:
    /// Errors: backend_error.
    blas_lt() : workspace_(workspace_bytes) {
        const cublasStatus_t status = cublasLtCreate(&library_);
        if (status != CUBLAS_STATUS_SUCCESS) {
            raise<backend_error>("cublasLt: create: ", words(status));
        }
    }
    blas_lt(const blas_lt&) = delete;
    blas_lt& operator=(const blas_lt&) = delete;
    ~blas_lt() { static_cast<void>(cublasLtDestroy(library_)); }

    void multiply(runtime::stream s, const product_shape& shape, const bf16* w, const bf16* x, float* y,
                  index y_stride) {
        plan& p = plan_for(s, {shape, y_stride, alignment_of(y)});
        const float one = 1.0F;
        const float zero = 0.0F;
        check(cublasLtMatmul(library_, &p.operation, &one, w, &p.w, x, &p.x, &zero, y, &p.y, y, &p.y, &p.algorithm,
                             workspace_.data(), static_cast<std::size_t>(workspace_bytes), s),
              "matmul", shape);
    }

private:
    // Fixed, since it decides which algorithms there are. As much as cuBLAS takes for itself on Hopper.
    static constexpr index workspace_bytes = index{32} << 20;

    // Parts of a product that is split along k are added in a step of their own. In place, blocks would add to y one
    // after another, in an order that is nowhere promised.
    static constexpr std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    /// All that an algorithm is chosen by.
    struct plan_key {
        product_shape shape;
        index y_stride = 0;
        std::uint32_t y_alignment = 0;

        friend auto operator<=>(const plan_key&, const plan_key&) = default;
    };

    // cuBLASLt knows columns: w (n, k) by rows is (k, n) by columns, and y (m, n) is (n, m).
    struct plan {
        cublasLtMatmulDescOpaque_t operation;
        cublasLtMatrixLayoutOpaque_t w;
        cublasLtMatrixLayoutOpaque_t x;
        cublasLtMatrixLayoutOpaque_t y;
        cublasLtMatmulAlgo_t algorithm;
    };

    static std::string words(cublasStatus_t status) {
        return dflash::detail::text(cublasLtGetStatusName(status), ", ", cublasLtGetStatusString(status));
    }

    static void check(cublasStatus_t status, const char* what, const product_shape& shape) {
        if (status != CUBLAS_STATUS_SUCCESS) {
            detail::refuse_product(shape, what, words(status).c_str());
        }
    }

    /// The largest power of two up to 256 that divides the address.
    static std::uint32_t alignment_of(const void* address) noexcept {
        const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
        return static_cast<std::uint32_t>(bits & (~bits + 1));
    }

    plan& plan_for(runtime::stream s, const plan_key& key) {
        const auto found = plans_.find(key);
        if (found != plans_.end()) {
            return found->second;
        }
        // The first product of its kind loads kernels, which a capture does not allow.
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        runtime::check(cudaStreamIsCapturing(s, &capture), "stream");
        if (capture != cudaStreamCaptureStatusNone) {
            detail::refuse_product(key.shape, "matmul", "no algorithm was chosen before the capture");
        }
        return plans_.emplace(key, choose(key)).first->second;
    }

    [[nodiscard]] plan choose(const plan_key& key) const {
        const product_shape& shape = key.shape;
        const auto m = static_cast<std::uint64_t>(shape.m);
        const auto n = static_cast<std::uint64_t>(shape.n);
        const auto k = static_cast<std::uint64_t>(shape.k);
        const auto checked = [&](cublasStatus_t status) { check(status, "description", shape); };
        plan p = {};
        checked(cublasLtMatmulDescInit(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        const cublasOperation_t transposed = CUBLAS_OP_T;
        checked(
            cublasLtMatmulDescSetAttribute(&p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
        checked(cublasLtMatrixLayoutInit(&p.w, CUDA_R_16BF, k, n, shape.k));
        checked(cublasLtMatrixLayoutInit(&p.x, CUDA_R_16BF, k, m, shape.k));
        checked(cublasLtMatrixLayoutInit(&p.y, CUDA_R_32F, n, m, key.y_stride));

        cublasLtMatmulPreferenceOpaque_t preference = {};
        checked(cublasLtMatmulPreferenceInit(&preference));
        const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
            checked(cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof value));
        };
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.y_alignment);
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.y_alignment);

        cublasLtMatmulHeuristicResult_t best = {};
        int found = 0;
        check(cublasLtMatmulAlgoGetHeuristic(library_, &p.operation, &p.w, &p.x, &p.y, &p.y, &preference, 1, &best,
                                             &found),
              "choice of an algorithm", shape);
        if (found < 1) {
            detail::refuse_product(shape, "choice of an algorithm", "there is none");
        }
        check(best.state, "choice of an algorithm", shape);
        p.algorithm = best.algo;
        return p;
    }

    cublasLtHandle_t library_ = nullptr;
    buffer<std::byte, device_space> workspace_;
    std::map<plan_key, plan> plans_;
};

}  // namespace cuda

DFLASH_END_NAMESPACE
