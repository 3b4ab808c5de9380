// Philox4x32-10: random words as a function of a counter and a key, without state.
//
// The same words on every machine, in any order of asking, which is what lets a block of draws equal serial draws.
// Source: Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
#pragma once

#include <cstdint>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// Four words: a counter going in, random words coming out.
struct philox_block {
    std::uint32_t word[4];
};

/// Ten rounds. Equal inputs give equal words; a change of any input bit changes all of them.
[[nodiscard]] DFLASH_HD inline philox_block philox4x32(philox_block counter, std::uint64_t key) {
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter.word[0];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter.word[2];
        counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ k0, static_cast<std::uint32_t>(b),
                    static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ k1, static_cast<std::uint32_t>(a)}};
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return counter;
}

}  // namespace numerics

DFLASH_END_NAMESPACE
