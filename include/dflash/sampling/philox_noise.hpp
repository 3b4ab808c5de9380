// The library's noise: Philox words, Gumbel-max for draws by score.
//
// The word of a token is word (id mod 4) of philox4x32 with key = seed and counter = (id / 4, stream, position). A draw
// by score is argmax(score + gumbel(word)), the lowest id among equals.
#pragma once

#include <bit>
#include <span>

#include <dflash/concepts/noise.hpp>
#include <dflash/numerics/gumbel.hpp>
#include <dflash/numerics/philox.hpp>

DFLASH_BEGIN_NAMESPACE

/// A noise_source without state. The same choices on every machine.
class philox_noise {
public:
    /// The noise of one token: gumbel(word).
    [[nodiscard]] static float gumbel(noise_key key, noise_stream stream, index position, token_id token) {
        return numerics::gumbel(words(key, stream, position, token / 4).word[token % 4]);
    }

    /// Gumbel-max over scores (v): -inf is never drawn.
    [[nodiscard]] static token_id draw(noise_key key, noise_stream stream, index position,
                                       std::span<const float> scores) {
        const index n = size_of(scores);
        best_score best;
        // A bound of the noise from the word alone spares the two logarithms of nearly every token, and the bound of
        // all noise the words of a group. Neither can change the result: rounding is monotone, so a sum that is not
        // above the best with the bound is not above it with the noise. The likeliest token first makes the best high.
        index first = 0;
        for (index i = 1; i < n; ++i) {
            first = scores[static_cast<std::size_t>(i)] > scores[static_cast<std::size_t>(first)] ? i : first;
        }
        if (n > 0) {
            best.offer(scores[static_cast<std::size_t>(first)], words(key, stream, position, first / 4), first);
        }
        for (index group = 0; group < n; group += 4) {
            const index last = group + 4 < n ? group + 4 : n;
            bool wanted = false;
            for (index i = group; i < last; ++i) {
                wanted = wanted || scores[static_cast<std::size_t>(i)] + highest_noise >= best.value;
            }
            if (wanted) {
                const numerics::philox_block block = words(key, stream, position, group / 4);
                for (index i = group; i < last; ++i) {
                    best.offer(scores[static_cast<std::size_t>(i)], block, i);
                }
            }
        }
        return best.token;
    }

    /// By inverting the running sum of the weights (n), each >= 0 and finite.
    [[nodiscard]] static token_id weighted(noise_key key, noise_stream stream, index position,
                                           std::span<const double> weights) {
        double total = 0;
        for (const double w : weights) {
            total = total + w;
        }
        const double wanted = uniform(key, stream, position) * total;
        double sum = 0;
        token_id last = no_token;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            if (weights[i] > 0) {
                sum = sum + weights[i];
                last = static_cast<token_id>(i);
                if (sum > wanted) {
                    break;
                }
            }
        }
        return last;
    }

    [[nodiscard]] static bool happens(noise_key key, noise_stream stream, index position, double probability) {
        return uniform(key, stream, position) < probability;
    }

    /// In [0, 1), a multiple of 2^-53.
    [[nodiscard]] static double uniform(noise_key key, noise_stream stream, index position) {
        const numerics::philox_block block = words(key, stream, position, 0);
        const std::uint64_t bits = (std::uint64_t{block.word[0]} << 32) | block.word[1];
        return static_cast<double>(bits >> 11) * 0x1p-53;
    }

private:
    static constexpr float highest_noise = 23.0F;  // numerics::gumbel stays below

    struct best_score {
        float value = -numerics::infinity;
        token_id token = no_token;

        void offer(float score, const numerics::philox_block& block, index i) {
            const std::uint32_t word = block.word[i % 4];
            // gumbel = -log(-log1p(-u)) <= -log(u) <= ln 2 (zeros + 1), u being at least 2^-(zeros + 1). 89 / 128 is a
            // little above ln 2, and the product is exact.
            const float bound = 0.6953125F * static_cast<float>(std::countl_zero(word) + 1);
            if (score == -numerics::infinity || score + bound < value) {
                return;
            }
            const float noisy = score + numerics::gumbel(word);
            const auto id = static_cast<token_id>(i);
            if (token == no_token || noisy > value || (noisy == value && id < token)) {
                value = noisy;
                token = id;
            }
        }
    };

    [[nodiscard]] static numerics::philox_block words(noise_key key, noise_stream stream, index position, index group) {
        const auto p = static_cast<std::uint64_t>(position);
        return numerics::philox4x32({{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(stream),
                                      static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32)}},
                                    key.seed);
    }
};

DFLASH_END_NAMESPACE
