// What a test can choose about the simulated machine. One object for the whole program; change it while nothing runs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

/// How the threads of a block are run.
enum class engine : std::uint8_t {
    fibers,   ///< one after another on the calling thread, in an order that the seed decides; fast
    threads,  ///< on a thread of the system each, so that the thread sanitizer sees what no barrier orders; slow
};

struct options {
    shim::engine engine = shim::engine::fibers;
    std::uint64_t seed = 1;  ///< of the order of blocks and threads in the next launch; each launch adds one
    bool shuffle = true;     ///< false: blocks and threads in ascending order (fibers)
    bool lazy = false;       ///< work put into a stream happens when somebody waits for it, not at once
    int devices = 1;         ///< what device_count() says
    std::size_t device_memory = ~std::size_t{0};  ///< bytes that can be allocated in all
};

inline options settings;

/// A small generator for orders (splitmix64).
class order_generator {
public:
    explicit order_generator(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint64_t next() noexcept {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }

    /// One of the set bits of a mask that is not 0.
    int any_bit(std::uint32_t mask) noexcept {
        const int turn = static_cast<int>(next() % 32);
        return (std::countr_zero(std::rotr(mask, turn)) + turn) % 32;
    }

private:
    std::uint64_t state_;
};

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
