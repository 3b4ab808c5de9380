// Samplers for tests: with keyed noise, with a history that counts, and one that raises.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <dflash/concepts/sampler.hpp>
#include <dflash/testing/report.hpp>
#include <support/toy_models.hpp>

namespace dflash::test {

/// Temperature-like noise keyed by (seed, position, id).
struct noisy_sampler {
    std::uint64_t seed = 1;

    [[nodiscard]] token_id pick(std::span<const float> logits, index position) const {
        token_id best = 0;
        float best_value = 0;
        for (std::size_t k = 0; k < logits.size(); ++k) {
            testing::dice die(seed * 7919U + static_cast<std::uint64_t>(position) * 104729U + k);
            const float value = logits[k] + 1.5F * die.fraction();
            if (k == 0 || value > best_value) {
                best = static_cast<token_id>(k);
                best_value = value;
            }
        }
        return best;
    }
};

/// A user's sampler that forbids every token of the sequence so far; free choice again when all are used up.
struct forbid_seen {
    std::uint64_t seen = 0;  // one bit a token; the toys' vocabularies are small

    [[nodiscard]] token_id pick(std::span<const float> logits, index /*position*/) const {
        index best = -1;
        for (index k = 0; k < size_of(logits); ++k) {
            const bool allowed = (seen >> k & 1U) == 0;
            if (allowed && (best < 0 || logits[static_cast<std::size_t>(k)] > logits[static_cast<std::size_t>(best)])) {
                best = k;
            }
        }
        return static_cast<token_id>(best < 0 ? 0 : best);
    }
    [[nodiscard]] forbid_seen fork() const { return *this; }
    void advance(token_id token) { seen |= std::uint64_t{1} << token; }
};

/// Counts down and raises; shared by all copies of a sampler.
struct countdown {
    index left = -1;
    void tick() {
        if (left >= 0 && left-- == 0) {
            throw injected_error();
        }
    }
};

/// A penalty on the last three tokens: order and multiplicity of advance() matter. Movable only, on purpose.
class order_sampler {
public:
    explicit order_sampler(countdown* picks = nullptr, countdown* advances = nullptr)
        : picks_(picks), advances_(advances) {}
    order_sampler(order_sampler&&) = default;
    order_sampler& operator=(order_sampler&&) = default;
    order_sampler(const order_sampler&) = delete;
    order_sampler& operator=(const order_sampler&) = delete;

    [[nodiscard]] token_id pick(std::span<const float> logits, index /*position*/) const {
        if (picks_ != nullptr) {
            picks_->tick();
        }
        index best = 0;
        float best_value = 0;
        for (index k = 0; k < size_of(logits); ++k) {
            float value = logits[static_cast<std::size_t>(k)];
            for (int age = 0; age < 3; ++age) {
                value -= last_[age] == k ? 0.375F * static_cast<float>(3 - age) : 0.0F;
            }
            value += static_cast<float>((total_ + 3 * k) % 5) * 0.125F;
            if (k == 0 || value > best_value) {
                best = k;
                best_value = value;
            }
        }
        return static_cast<token_id>(best);
    }
    [[nodiscard]] order_sampler fork() const {
        order_sampler copy(picks_, advances_);
        std::copy(std::begin(last_), std::end(last_), std::begin(copy.last_));
        copy.total_ = total_;
        return copy;
    }
    void advance(token_id token) {
        if (advances_ != nullptr) {
            advances_->tick();
        }
        last_[2] = last_[1];
        last_[1] = last_[0];
        last_[0] = token;
        total_ = (2 * total_ + token + 1) % 1009;
    }

private:
    index last_[3] = {-1, -1, -1};
    index total_ = 0;
    countdown* picks_;
    countdown* advances_;
};

}  // namespace dflash::test
