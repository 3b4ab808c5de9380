// How a kernel sees the machine it runs on: a handle to its thread, and one way to launch.
//
// A kernel is a struct with `arguments` (trivially copyable), a fixed `max_threads`, and
//     template <class Thread> DFLASH_DEVICE static void run(const Thread& t, const arguments& a);
// `t` is everything it knows of the machine, so that the same source is compiled by nvcc for a device and by any C++20
// compiler for the simulator in backends/cuda/shim, which looks for races and uninitialised memory.
//
//   t.thread(), t.threads()               index in the block and its size, one-dimensional; t.lane(), t.warp()
//   t.block_x(), t.block_y(), t.block_z() which block this is
//   t.shared<T>(byte)                     the block's shared memory from `byte` on; never initialised
//   t.sync()                              all threads of the block meet here and see each other's writes to memory
//   t.shuffle_down(v, delta)              v of lane + delta (own v past the end of the warp); the whole warp must call
//   it t.shuffle(v, lane)                    v of that lane; the whole warp must call it
//
// Threads of a block may differ in where they go, except that t.sync() and shuffles are reached by all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <dflash/vocabulary.hpp>

#if defined(__CUDACC__)
#define DFLASH_DEVICE __device__
#define DFLASH_UNROLL _Pragma("unroll")
#define DFLASH_UNROLL_BY_4 _Pragma("unroll 4")
#else
#define DFLASH_DEVICE
#define DFLASH_UNROLL
#define DFLASH_UNROLL_BY_4
#endif

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Threads that run in step.
inline constexpr int warp_size = 32;

/// Blocks of a launch.
struct grid {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
};

/// Four words that are loaded and stored together.
struct alignas(16) word4 {
    std::uint32_t v[4];
};

/// What a launch needs beside the kernel's arguments.
struct launch_shape {
    cuda::grid blocks;
    int threads = warp_size;  ///< of a block, a multiple of warp_size, at most Kernel::max_threads
    int shared_bytes = 0;
};

}  // namespace cuda

DFLASH_END_NAMESPACE

#if defined(__CUDACC__)
#include <dflash/cuda/execution_device.hpp>
#else
// The simulator: link dflash::cuda_shim. Without it dflash::cuda needs nvcc.
#include <dflash/cuda/shim/execution.hpp>
#endif
