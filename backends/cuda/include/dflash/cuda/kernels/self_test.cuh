// Whether kernels compute as the results rely on: the device's part of numerics/self_test.hpp.
//
// Flags of nvcc decide it (nvcc_flags.txt), and none of them shows as a macro.
#pragma once

#include <dflash/cuda/execution.hpp>
#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

struct self_test_kernel {
    static constexpr int max_threads = warp_size;
    static constexpr int inputs = 6;
    static constexpr int results = 6;

    struct arguments {
        const float* in;  ///< (inputs), from memory, so that nothing is computed before
        float* out;       ///< (results)
    };

    static constexpr float given[inputs] = {0x1p-149F, 0x1p-126F, 0.5F, 0x1.001p+0F, -0x1.002p+0F, 3.0F};

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.thread() != 0) {
            return;
        }
        a.out[0] = a.in[0] + a.in[0];
        a.out[1] = a.in[1] * a.in[2];
        a.out[2] = numerics::fma(a.in[3], a.in[3], a.in[4]);
#if defined(__CUDA_ARCH__)
        a.out[3] = a.in[3] * a.in[3] + a.in[4];  // 0 as a product and a sum, 2^-24 when it is fused
#else
        a.out[3] = 0.0F;
#endif
        a.out[4] = numerics::divide(a.in[2], a.in[5]);
        a.out[5] = numerics::sqrt(a.in[5]);
    }
};

}  // namespace cuda

DFLASH_END_NAMESPACE
