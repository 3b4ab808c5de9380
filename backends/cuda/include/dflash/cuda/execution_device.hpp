// The thread handle on a device, and the one entry point that all kernels share.
#pragma once

#include <cuda_runtime.h>

#include <dflash/cuda/execution.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

class device_thread {
public:
    __device__ int thread() const { return static_cast<int>(threadIdx.x); }
    __device__ int threads() const { return static_cast<int>(blockDim.x); }
    __device__ int lane() const { return static_cast<int>(threadIdx.x) % warp_size; }
    __device__ int warp() const { return static_cast<int>(threadIdx.x) / warp_size; }
    __device__ int block_x() const { return static_cast<int>(blockIdx.x); }
    __device__ int block_y() const { return static_cast<int>(blockIdx.y); }
    __device__ int block_z() const { return static_cast<int>(blockIdx.z); }
    __device__ void sync() const { __syncthreads(); }

    template <class T>
    __device__ T* shared(int byte) const {
        extern __shared__ word4 dflash_shared[];
        return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(dflash_shared) + byte);
    }

    template <class T>
    __device__ T shuffle_down(T value, int delta) const {
        return __shfl_down_sync(0xFFFFFFFFU, value, static_cast<unsigned>(delta));
    }

    template <class T>
    __device__ T shuffle(T value, int lane) const {
        return __shfl_sync(0xFFFFFFFFU, value, lane);
    }
};

namespace detail {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::max_threads) entry(const typename Kernel::arguments a) {
    Kernel::run(device_thread{}, a);
}

}  // namespace detail

}  // namespace cuda

DFLASH_END_NAMESPACE
