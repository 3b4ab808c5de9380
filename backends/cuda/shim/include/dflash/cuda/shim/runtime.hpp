// dflash::cuda::runtime on the simulator: the names of runtime_device.hpp.
//
// Work happens at once, or with settings.lazy when somebody waits for it. Errors of kernels come where the work
// happens.
#pragma once

#include <cstddef>
#include <type_traits>

#include <dflash/cuda/shim/execution.hpp>
#include <dflash/cuda/shim/machine.hpp>
#include <dflash/cuda/shim/settings.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::runtime {

using stream = shim::stream_record*;
using graph = shim::graph_record*;

[[nodiscard]] inline int device_count() noexcept {
    return shim::settings.devices;
}

[[nodiscard]] inline void* allocate(std::size_t bytes) {
    return shim::machine::instance().allocate(bytes, false);
}

inline void release(void* memory) noexcept {
    shim::machine::instance().release(memory, false);
}

[[nodiscard]] inline void* allocate_pinned(std::size_t bytes) {
    return shim::machine::instance().allocate(bytes, true);
}

inline void release_pinned(void* memory) noexcept {
    shim::machine::instance().release(memory, true);
}

[[nodiscard]] inline stream create_stream() {
    return shim::machine::instance().create_stream();
}

inline void destroy(stream s) noexcept {
    shim::machine::instance().destroy(s);
}

inline void copy(void* to, const void* from, std::size_t bytes, stream s) {
    shim::machine::instance().copy(to, from, bytes, s);
}

inline void clear(void* to, std::size_t bytes, stream s) {
    shim::machine::instance().clear(to, bytes, s);
}

inline void wait(stream s) {
    shim::machine::instance().wait(s);
}

inline void wait_all() {
    shim::machine::instance().wait_all();
}

[[nodiscard]] inline bool visible(const void* pointer) noexcept {
    return shim::machine::instance().visible(pointer);
}

inline void begin_capture(stream s) {
    shim::machine::instance().begin_capture(s);
}

[[nodiscard]] inline graph end_capture(stream s) {
    return shim::machine::instance().end_capture(s);
}

inline void abandon_capture(stream s) noexcept {
    shim::machine::instance().abandon_capture(s);
}

inline void launch(graph g, stream s) {
    shim::machine::instance().launch(g, s);
}

inline void destroy(graph g) noexcept {
    shim::machine::instance().destroy(g);
}

namespace detail {

/// The limits of a device. Errors: backend_error.
inline void check_shape(const launch_shape& shape, int max_threads) {
    constexpr unsigned most_x = 0x7FFFFFFFU;
    constexpr unsigned most_yz = 65535;
    constexpr int most_shared = 227 * 1024;
    const auto& [x, y, z] = shape.blocks;
    if (x < 1 || y < 1 || z < 1 || x > most_x || y > most_yz || z > most_yz) {
        raise<backend_error>("cuda: launch: got ", x, " x ", y, " x ", z, " blocks, needs 1 .. ", most_x, " x 1 .. ",
                             most_yz, " x 1 .. ", most_yz);
    }
    if (shape.threads < warp_size || shape.threads > max_threads || shape.threads % warp_size != 0) {
        raise<backend_error>("cuda: launch: got ", shape.threads, " threads, needs a multiple of ", warp_size,
                             " up to ", max_threads);
    }
    if (shape.shared_bytes < 0 || shape.shared_bytes > most_shared) {
        raise<backend_error>("cuda: launch: got ", shape.shared_bytes, " bytes of shared memory, needs 0 .. ",
                             most_shared);
    }
}

}  // namespace detail

template <class Kernel>
void launch(stream s, const launch_shape& shape, const typename Kernel::arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<typename Kernel::arguments>, "kernel arguments are copied as bytes");
    static_assert(sizeof(typename Kernel::arguments) <= 4096, "a device takes 4096 bytes of arguments");
    static_assert(Kernel::max_threads <= shim::max_block_threads, "a device runs at most 1024 threads a block");
    detail::check_shape(shape, Kernel::max_threads);
    shim::machine::instance().launch(s, [shape, arguments] { shim::run_grid<Kernel>(shape, arguments); });
}

}  // namespace cuda::runtime

DFLASH_END_NAMESPACE
