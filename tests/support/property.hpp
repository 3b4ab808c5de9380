// How many cases a property test runs and from which seed: DFLASH_CASES and DFLASH_SEED change them for a replay.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include <dflash/vocabulary.hpp>

namespace dflash::test {

inline std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 0);
}

/// The seed of the first case; the others count up from it.
inline std::uint64_t first_seed() {
    return from_environment("DFLASH_SEED", 20260401);
}

/// The number of cases, `fallback` unless the environment says otherwise. Under the address sanitizer, where a case
/// takes ten times as long and shows what the first ones show, a third.
inline index cases(index fallback) {
#if defined(__SANITIZE_ADDRESS__)
    fallback = (fallback + 2) / 3;
#endif
    return static_cast<index>(from_environment("DFLASH_CASES", static_cast<std::uint64_t>(fallback)));
}

/// What to type to see a failed case again.
inline std::string replay(std::uint64_t seed) {
    return "replay with DFLASH_CASES=1 DFLASH_SEED=" + std::to_string(seed);
}

}  // namespace dflash::test
