// Numbers that tell objects apart over the life of a program, where addresses are used again.
#pragma once

#include <atomic>
#include <cstdint>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE

/// 1, 2, 3, ...: never the same twice, in any thread.
[[nodiscard]] inline std::uint64_t next_identity() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

DFLASH_END_NAMESPACE
