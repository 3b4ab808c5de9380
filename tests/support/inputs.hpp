// Inputs that break shortcuts: the same numbers in every test, on every machine.
#pragma once

#include <cmath>
#include <cstdint>

#include <dflash/vocabulary.hpp>

namespace dflash::test {

/// A small generator whose numbers do not depend on the standard library.
class noise {
public:
    explicit noise(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
    std::uint32_t word() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<std::uint32_t>(state_ >> 32);
    }
    index below(index n) { return static_cast<index>(word()) % n; }
    /// In [-1, 1).
    float unit() { return static_cast<float>(static_cast<std::int32_t>(word())) * 0x1p-31F; }

private:
    std::uint64_t state_;
};

/// What an input is made of: each kind breaks another shortcut.
enum class content { plain, cancelling, subnormal, wide };

inline float draw(noise& random, content kind) {
    switch (kind) {
        case content::plain: return random.unit();
        case content::cancelling: {
            constexpr float pattern[] = {1e8F, 1.0F, -1e8F, 1.0F};
            return pattern[random.below(4)];
        }
        case content::subnormal: return random.unit() * 0x1p-126F;
        case content::wide: return std::ldexp(random.unit(), static_cast<int>(random.below(60)) - 30);
    }
    return 0.0F;
}

}  // namespace dflash::test
