// A token from each row of logits, and how many drafts stand: decided where the logits are, so that a round brings back
// a few integers.
//
// The choice is sampling/greedy.hpp at temperature 0 and sampling/categorical.hpp with philox_noise above it, to the
// bit: score = (logit - largest) / T, token = argmax(score + gumbel), the lowest id among equals.
#pragma once

#include <dflash/concepts/noise.hpp>
#include <dflash/cuda/execution.hpp>
#include <dflash/numerics/gumbel.hpp>
#include <dflash/numerics/philox.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// How tokens are chosen.
struct choice {
    float temperature = 0;
    std::uint64_t seed = 0;
};

/// What a round brings back.
struct device_verdict {
    int accepted;
    token_id next;
    int bad_row;  ///< -1: none
};

namespace detail {

struct best_token {
    float value = -numerics::infinity;
    token_id token = -1;

    /// Takes a candidate that comes before. A NaN never does.
    DFLASH_DEVICE void offer(float other, token_id id) {
        if (id >= 0 && (token < 0 || other > value || (other == value && id < token))) {
            value = other;
            token = id;
        }
    }
};

}  // namespace detail

/// One block for each row (block_x).
struct choose_kernel {
    static constexpr int max_threads = 512;

    struct arguments {
        const float* logits;
        std::int64_t stride;
        int vocab;
        choice how;
        std::int64_t position;  ///< of row 0
        token_id* tokens;       ///< (rows)
        int* finite;            ///< (rows), 1 or 0; may be null
    };

    static constexpr int shared_bytes(int threads) { return threads / warp_size * 12 + 16; }

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const float* x = a.logits + t.block_x() * a.stride;
        detail::best_token best;
        bool finite = true;
        for (int i = t.thread(); i < a.vocab; i += t.threads()) {
            finite = finite && numerics::is_finite(x[i]);
            if (x[i] == x[i]) {
                best.offer(x[i], i);
            }
        }
        best = best_of_block(t, best);
        // Its barrier stands between the two uses of best_of_block's memory, too.
        const int all_finite = all_of_block(t, finite);
        if (a.how.temperature > 0) {
            const float largest = best.value;
            best = {};
            for (int i = t.thread(); i < a.vocab; i += t.threads()) {
                const float score = numerics::divide(x[i] - largest, a.how.temperature);
                if (score != score || score == -numerics::infinity) {
                    continue;
                }
                best.offer(score + numerics::gumbel(word(a, t.block_x(), i)), i);
            }
            best = best_of_block(t, best);
        }
        if (t.thread() == 0) {
            // A row of NaN only has no best token; it stands for 0, as in numerics::argmax.
            a.tokens[t.block_x()] = best.token < 0 ? 0 : best.token;
            if (a.finite != nullptr) {
                a.finite[t.block_x()] = all_finite;
            }
        }
    }

private:
    DFLASH_DEVICE static std::uint32_t word(const arguments& a, int row, int token) {
        const std::uint64_t position = static_cast<std::uint64_t>(a.position + row);
        const numerics::philox_block block = numerics::philox4x32(
            {{static_cast<std::uint32_t>(token / 4), static_cast<std::uint32_t>(noise_stream::token),
              static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32)}},
            a.how.seed);
        return block.word[token % 4];
    }

    template <class Thread>
    DFLASH_DEVICE static detail::best_token best_of_block(const Thread& t, detail::best_token best) {
        for (int half = warp_size / 2; half > 0; half /= 2) {
            const float value = t.shuffle_down(best.value, half);
            const token_id token = t.shuffle_down(best.token, half);
            best.offer(value, token);
        }
        float* values = t.template shared<float>(0);
        auto* tokens = reinterpret_cast<token_id*>(values + t.threads() / warp_size);
        if (t.lane() == 0) {
            values[t.warp()] = best.value;
            tokens[t.warp()] = best.token;
        }
        t.sync();
        detail::best_token all;
        for (int w = 0; w < t.threads() / warp_size; ++w) {
            all.offer(values[w], tokens[w]);
        }
        return all;
    }

    template <class Thread>
    DFLASH_DEVICE static int all_of_block(const Thread& t, bool mine) {
        int all = mine ? 1 : 0;
        for (int half = warp_size / 2; half > 0; half /= 2) {
            all &= t.shuffle_down(all, half);
        }
        int* warps = t.template shared<int>(8 * (t.threads() / warp_size));
        if (t.lane() == 0) {
            warps[t.warp()] = all;
        }
        t.sync();
        all = 1;
        for (int w = 0; w < t.threads() / warp_size; ++w) {
            all &= warps[w];
        }
        return all;
    }
};

/// How many drafts stand, as sample_and_match counts them. One thread: it is a handful of integers.
struct accept_kernel {
    static constexpr int max_threads = warp_size;

    struct arguments {
        const token_id* drafts;  ///< (n)
        const token_id* chosen;  ///< (n + 1)
        const int* finite;       ///< (n + 1)
        int n;
        device_verdict* verdict;  ///< pinned memory
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.thread() != 0) {
            return;
        }
        for (int i = 0;; ++i) {
            if (a.finite[i] == 0) {
                *a.verdict = {i, -1, i};
                return;
            }
            if (i == a.n || a.chosen[i] != a.drafts[i]) {
                *a.verdict = {i, a.chosen[i], -1};
                return;
            }
        }
    }
};

}  // namespace cuda

DFLASH_END_NAMESPACE
