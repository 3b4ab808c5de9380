// A digest over the bits of results, for tests that compare whole runs across compilers, flags and machines.
//
// Not a cryptographic hash. Every NaN counts as the same NaN; +0 and -0 differ.
#pragma once

#include <cstdint>
#include <span>

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// FNV-1a, 64 bits, over the bytes of the values in little-endian order.
class digest {
public:
    /// Takes in one word of 8 bytes.
    void add(std::uint64_t word) { take(word, 8); }

    /// Takes in the binary32 patterns, 4 bytes each.
    void add(std::span<const float> values) {
        for (const float value : values) {
            take(canonical_bits(value), 4);
        }
    }

    /// The digest of everything taken in so far.
    [[nodiscard]] std::uint64_t value() const { return state_; }

private:
    void take(std::uint64_t word, int bytes) {
        for (int i = 0; i < bytes; ++i) {
            state_ = (state_ ^ (word & 0xFFU)) * 0x100000001B3U;
            word >>= 8;
        }
    }

    std::uint64_t state_ = 0xCBF29CE484222325U;
};

}  // namespace numerics

DFLASH_END_NAMESPACE
