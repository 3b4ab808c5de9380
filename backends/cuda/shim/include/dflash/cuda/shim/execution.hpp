// The thread handle in the simulator, and how it runs the blocks of a launch.
//
// Blocks run one after another in a random order, the threads of each on the engine of the settings. Shared memory is a
// heap block of exactly the size that the launch asks for, filled with 0xFF (NaN) for each block. What is broken is a
// contract_error: shared memory out of range or misaligned, writes behind it, threads that do not meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include <dflash/cuda/execution.hpp>
#include <dflash/cuda/shim/block.hpp>
#include <dflash/cuda/shim/fiber_engine.hpp>
#include <dflash/cuda/shim/sanitizers.hpp>
#include <dflash/cuda/shim/settings.hpp>
#include <dflash/cuda/shim/thread_engine.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

/// What a kernel calls `t`. Lines tell apart calls that threads must make together; nobody passes them.
class simulated_thread {
public:
    simulated_thread(running_block& block, int thread) noexcept : block_(&block), thread_(thread) {}

    [[nodiscard]] int thread() const noexcept { return thread_; }
    [[nodiscard]] int threads() const noexcept { return block_->job().threads; }
    [[nodiscard]] int lane() const noexcept { return thread_ % warp_size; }
    [[nodiscard]] int warp() const noexcept { return thread_ / warp_size; }
    [[nodiscard]] int block_x() const noexcept { return static_cast<int>(block_->job().index.x); }
    [[nodiscard]] int block_y() const noexcept { return static_cast<int>(block_->job().index.y); }
    [[nodiscard]] int block_z() const noexcept { return static_cast<int>(block_->job().index.z); }

    void sync(int line = __builtin_LINE()) const { block_->sync(thread_, {meeting::sync, 0, line}); }

    /// Errors: contract_error when not even one T fits there, or `byte` is no multiple of its alignment.
    template <class T>
    [[nodiscard]] T* shared(int byte) const {
        const int size = block_->job().shared_bytes;
        if (byte < 0 || byte > size - static_cast<int>(sizeof(T))) {
            raise<contract_error>("thread ", thread_, ": shared memory of ", size, " bytes has no ", sizeof(T),
                                  " bytes at byte ", byte);
        }
        if (byte % static_cast<int>(alignof(T)) != 0) {
            raise<contract_error>("thread ", thread_, ": byte ", byte, " of shared memory is no multiple of ",
                                  alignof(T));
        }
        return reinterpret_cast<T*>(block_->job().shared + byte);
    }

    /// delta: 0 .. 31
    template <class T>
    [[nodiscard]] T shuffle_down(T value, int delta, int line = __builtin_LINE()) const {
        check_lane("shuffle_down by ", delta);
        return exchange(value, meeting::shuffle_down, lane() + delta < warp_size ? lane() + delta : lane(), line);
    }

    /// lane: 0 .. 31
    template <class T>
    [[nodiscard]] T shuffle(T value, int lane, int line = __builtin_LINE()) const {
        check_lane("shuffle from lane ", lane);
        return exchange(value, meeting::shuffle, lane, line);
    }

private:
    // A device takes the lowest five bits, which is never meant.
    void check_lane(const char* what, int lane) const {
        if (lane < 0 || lane >= warp_size) {
            raise<contract_error>("thread ", thread_, ": ", what, lane, ", needs 0 .. 31");
        }
    }

    template <class T>
    T exchange(T value, meeting kind, int source, int line) const {
        static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                      "a device shuffles numbers of 4 or 8 bytes");
        std::uint64_t word = 0;
        std::memcpy(&word, &value, sizeof value);
        word = block_->exchange(thread_, {kind, static_cast<int>(sizeof value), line}, word, source);
        std::memcpy(&value, &word, sizeof value);
        return value;
    }

    running_block* block_;
    int thread_;
};

/// The shared memory of one block at a time.
class shared_memory {
public:
    explicit shared_memory(int bytes)
        : bytes_(static_cast<std::size_t>(bytes)),
          memory_(static_cast<unsigned char*>(::operator new(bytes_ + guard, alignment))) {}
    ~shared_memory() { ::operator delete(memory_, alignment); }
    shared_memory(const shared_memory&) = delete;
    shared_memory& operator=(const shared_memory&) = delete;

    [[nodiscard]] unsigned char* data() const noexcept { return memory_; }

    void begin_block() noexcept {
        std::memset(memory_, 0xFF, bytes_);
        std::memset(memory_ + bytes_, guard_byte, guard);
    }

    /// Errors: contract_error when the block wrote behind its memory.
    void end_block() const {
        for (std::size_t i = 0; i < guard; ++i) {
            if (memory_[bytes_ + i] != guard_byte) {
                raise<contract_error>("shared memory of ", bytes_, " bytes: byte ", bytes_ + i, " was written");
            }
        }
    }

private:
    static constexpr std::align_val_t alignment{alignof(word4)};
    static constexpr std::size_t guard = DFLASH_SHIM_ASAN ? 0 : 256;  // the address sanitizer sees every access behind
    static constexpr unsigned char guard_byte = 0xA5;

    std::size_t bytes_;
    unsigned char* memory_;
};

/// Runs all blocks of a launch on the calling thread or on those of the thread engine.
/// Errors: contract_error as above; whatever the kernel raises. The blocks that were left do not run then.
template <class Kernel>
void run_grid(const launch_shape& shape, const typename Kernel::arguments& arguments) {
    order_generator order(settings.seed++);
    const std::uint64_t per_layer = std::uint64_t{shape.blocks.x} * shape.blocks.y;
    std::vector<std::uint64_t> blocks(per_layer * shape.blocks.z);
    std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
    for (std::size_t i = blocks.size(); settings.shuffle && i > 1; --i) {
        std::swap(blocks[i - 1], blocks[order.next() % i]);
    }

    shared_memory shared(shape.shared_bytes);
    block_job job;
    job.body = [](running_block& block, int thread, const void* of_launch) {
        Kernel::run(simulated_thread(block, thread), *static_cast<const typename Kernel::arguments*>(of_launch));
    };
    job.arguments = &arguments;
    job.threads = shape.threads;
    job.shared = shared.data();
    job.shared_bytes = shape.shared_bytes;
    for (const std::uint64_t block : blocks) {
        job.index.x = static_cast<unsigned>(block % shape.blocks.x);
        job.index.y = static_cast<unsigned>(block / shape.blocks.x % shape.blocks.y);
        job.index.z = static_cast<unsigned>(block / per_layer);
        shared.begin_block();
        if (settings.engine == engine::fibers) {
            fiber_engine::of_this_thread().run(job, order, settings.shuffle);
        } else {
            thread_engine::instance().run(job);
        }
        shared.end_block();
    }
}

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
