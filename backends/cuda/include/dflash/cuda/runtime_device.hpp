// dflash::cuda::runtime on the CUDA runtime.
#pragma once

#include <cstddef>
#include <type_traits>

#include <cuda_runtime.h>

#include <dflash/contracts.hpp>
#include <dflash/cuda/execution.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::runtime {

using stream = cudaStream_t;
using graph = cudaGraphExec_t;

/// Errors: backend_error when the call failed; `what` names it.
inline void check(cudaError_t code, const char* what) {
    if (code != cudaSuccess) {
        raise<backend_error>("cuda: ", what, ": ", cudaGetErrorString(code));
    }
}

[[nodiscard]] inline int device_count() noexcept {
    int count = 0;
    const bool found = cudaGetDeviceCount(&count) == cudaSuccess;
    static_cast<void>(cudaGetLastError());  // a missing driver is an answer, not an error
    return found ? count : 0;
}

[[nodiscard]] inline void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        raise<backend_error>("cuda: device memory: ", bytes, " bytes: ", cudaGetErrorString(code));
    }
    return memory;
}

inline void release(void* memory) noexcept {
    static_cast<void>(cudaFree(memory));
}

[[nodiscard]] inline void* allocate_pinned(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "pinned memory");
    return memory;
}

inline void release_pinned(void* memory) noexcept {
    static_cast<void>(cudaFreeHost(memory));
}

[[nodiscard]] inline stream create_stream() {
    stream s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    return s;
}

inline void destroy(stream s) noexcept {
    static_cast<void>(cudaStreamDestroy(s));
}

inline void copy(void* to, const void* from, std::size_t bytes, stream s) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s), "copy");
}

inline void clear(void* to, std::size_t bytes, stream s) {
    check(cudaMemsetAsync(to, 0, bytes, s), "clear");
}

inline void wait(stream s) {
    check(cudaStreamSynchronize(s), "wait");
}

inline void wait_all() {
    check(cudaDeviceSynchronize(), "wait");
}

[[nodiscard]] inline bool visible(const void* pointer) noexcept {
    cudaPointerAttributes found = {};
    const bool known = cudaPointerGetAttributes(&found, pointer) == cudaSuccess;
    static_cast<void>(cudaGetLastError());
    return known && (found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeHost);
}

inline void begin_capture(stream s) {
    check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "capture");
}

[[nodiscard]] inline graph end_capture(stream s) {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamEndCapture(s, &recorded), "capture");
    graph executable = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&executable, recorded, 0);
    static_cast<void>(cudaGraphDestroy(recorded));
    check(code, "graph");
    return executable;
}

inline void abandon_capture(stream s) noexcept {
    cudaGraph_t recorded = nullptr;
    static_cast<void>(cudaStreamEndCapture(s, &recorded));
    if (recorded != nullptr) {
        static_cast<void>(cudaGraphDestroy(recorded));
    }
    static_cast<void>(cudaGetLastError());
}

inline void launch(graph g, stream s) {
    check(cudaGraphLaunch(g, s), "graph launch");
}

inline void destroy(graph g) noexcept {
    static_cast<void>(cudaGraphExecDestroy(g));
}

template <class Kernel>
void launch(stream s, const launch_shape& shape, const typename Kernel::arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<typename Kernel::arguments>, "kernel arguments are copied as bytes");
    constexpr int plain_limit = 48 * 1024;  // more shared memory must be asked for
    if (shape.shared_bytes > plain_limit) {
        check(cudaFuncSetAttribute(detail::entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   shape.shared_bytes),
              "shared memory");
    }
    detail::entry<Kernel><<<dim3(shape.blocks.x, shape.blocks.y, shape.blocks.z), static_cast<unsigned>(shape.threads),
                            static_cast<std::size_t>(shape.shared_bytes), s>>>(arguments);
    check(cudaGetLastError(), "launch");
}

}  // namespace cuda::runtime

DFLASH_END_NAMESPACE
