// From a row of logits to the law of the next token, as scores: p(i) is proportional to e^score(i), -inf is left out.
//
//   bias         score = logit + bias
//   temperature  score = (score - the largest) / T, so the best token has 0 and no T overflows; T = 0: the best token
//                alone, the lowest id among equals
//   top-k        the first k tokens in order; order: the larger score first, the lower id among equals
//   top-p        the shortest beginning of that order whose probabilities, of what is left, reach p
//   min-p        tokens whose probability is at least m times that of the likeliest
//
// The likeliest token passes every filter, so a law never becomes empty here; it may be empty before (all forbidden).
// Probabilities are numerics::exp(score), added in double in the order of ids for totals and in token order for top-p.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <dflash/numerics/argmax.hpp>
#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/log.hpp>
#include <dflash/sampling/options.hpp>
#include <dflash/sampling/scratch.hpp>

DFLASH_BEGIN_NAMESPACE

/// The sum of e^score, in the order of ids. Scores of a law: the largest is 0. Shape: scores (v).
[[nodiscard]] inline double total_weight(std::span<const float> scores) {
    double total = 0;
    for (const float s : scores) {
        if (s > -numerics::infinity) {
            total = total + static_cast<double>(numerics::exp(s));
        }
    }
    return total;
}

/// Turns rows of logits into scores. Keeps scratch memory, so that rows after the first allocate nothing.
class token_filter {
public:
    token_filter() = default;
    /// Errors: config_error, see check().
    explicit token_filter(sampling_options options) : options_(std::move(options)) {
        check(options_);
        min_score_ = lowest_score(options_.min_p);
    }

    [[nodiscard]] const sampling_options& options() const noexcept { return options_; }

    /// Logits in, scores out, in place; false when every token is forbidden. Logits are finite or -inf (forbidden).
    /// Shape: scores (v). Errors: config_error for a bias outside the vocabulary.
    bool apply(std::span<float> scores) {
        for (const logit_bias& entry : options_.biases) {
            if (static_cast<std::size_t>(entry.token) >= scores.size()) {
                raise<config_error>("logit_bias: token ", entry.token, " is outside the vocabulary of ", scores.size());
            }
            float& score = scores[static_cast<std::size_t>(entry.token)];
            score = score + entry.bias;
        }
        const index best = numerics::argmax(scores.data(), size_of(scores));
        const float largest = scores[static_cast<std::size_t>(best)];
        if (largest == -numerics::infinity) {
            return false;
        }
        if (options_.temperature == 0) {
            std::fill(scores.begin(), scores.end(), -numerics::infinity);
            scores[static_cast<std::size_t>(best)] = 0.0F;
            return true;
        }
        for (float& s : scores) {
            s = numerics::divide(s - largest, options_.temperature);
        }
        if (options_.top_k > 0 && options_.top_k < size_of(scores)) {
            keep_top_k(scores);
        }
        if (options_.top_p < 1) {
            keep_top_p(scores);
        }
        if (options_.min_p > 0) {
            for (float& s : scores) {
                s = s >= min_score_ ? s : -numerics::infinity;
            }
        }
        return true;
    }

private:
    struct candidate {
        float score;
        token_id token;

        /// Comes before: the larger score, then the lower id.
        friend bool operator<(const candidate& a, const candidate& b) noexcept {
            return a.score > b.score || (a.score == b.score && a.token < b.token);
        }
    };

    /// The lowest score with exp(score) >= share, 0 < share <= 1. Exp is monotone, so comparing with it is comparing
    /// probabilities, without an exponential for every token.
    static float lowest_score(float share) {
        if (!(share > 0)) {
            return -numerics::infinity;
        }
        // Scores are -from_bits(b) for growing b, up to where exp is 0.
        std::uint32_t enough = 0;
        std::uint32_t too_low = numerics::to_bits(-numerics::exp_constants::low) + 1;
        while (too_low - enough > 1) {
            const std::uint32_t middle = enough + (too_low - enough) / 2;
            (numerics::exp(-numerics::from_bits(middle)) >= share ? enough : too_low) = middle;
        }
        return -numerics::from_bits(enough);
    }

    /// Keeps the k that come first. A heap with the last of them on top; most tokens cost one comparison.
    void keep_top_k(std::span<float> scores) {
        const auto k = static_cast<std::size_t>(options_.top_k);
        std::vector<candidate>& order = scratch_.get();
        order.clear();
        for (std::size_t i = 0; i < scores.size(); ++i) {
            const candidate here{scores[i], static_cast<token_id>(i)};
            if (order.size() < k) {
                order.push_back(here);
                std::push_heap(order.begin(), order.end());
            } else if (here < order.front()) {
                std::pop_heap(order.begin(), order.end());
                order.back() = here;
                std::push_heap(order.begin(), order.end());
            }
        }
        keep(scores, order.size());
    }

    /// Looks at ever lower scores until what lies above has enough: the likeliest tokens are few, sorting all is dear.
    void keep_top_p(std::span<float> scores) {
        std::vector<candidate>& order = scratch_.get();
        const double wanted = static_cast<double>(options_.top_p) * total_weight(scores);
        for (const float floor : {-4.0F, -8.0F, -16.0F, -32.0F, -numerics::infinity}) {
            order.clear();
            for (std::size_t i = 0; i < scores.size(); ++i) {
                if (scores[i] > floor) {
                    order.push_back({scores[i], static_cast<token_id>(i)});
                }
            }
            std::sort(order.begin(), order.end());
            double sum = 0;
            std::size_t kept = 0;
            while (kept < order.size() && sum < wanted) {
                sum = sum + static_cast<double>(numerics::exp(order[kept].score));
                ++kept;
            }
            // Sums in another order may differ in the last place, so at the lowest floor all that there is must do.
            if (sum >= wanted || floor == -numerics::infinity) {
                keep(scores, kept);
                return;
            }
        }
    }

    /// Leaves the first `count` candidates and nothing else.
    void keep(std::span<float> scores, std::size_t count) {
        const std::vector<candidate>& order = scratch_.get();
        std::fill(scores.begin(), scores.end(), -numerics::infinity);
        for (std::size_t i = 0; i < count; ++i) {
            scores[static_cast<std::size_t>(order[i].token)] = order[i].score;
        }
    }

    sampling_options options_;
    float min_score_ = -numerics::infinity;
    detail::scratch<candidate> scratch_;
};

DFLASH_END_NAMESPACE
