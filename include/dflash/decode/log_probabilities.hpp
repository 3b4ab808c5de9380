// Log-probabilities of committed tokens, as an observer: nothing is computed where nobody asks.
//
// They are the model's own, of the raw logits, before bias, penalties, temperature and filters: (x - max) - log(sum of
// e^(x - max)). Rows are the same bits however the tokens were grouped, so serial and speculative decoding give the
// same numbers, and a token that is cut at an end is cut here, too.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <dflash/concepts/observer.hpp>
#include <dflash/numerics/softmax.hpp>

DFLASH_BEGIN_NAMESPACE

/// One token and ln of its probability.
struct token_log_probability {
    token_id token = -1;
    float log_probability = 0;

    friend bool operator==(const token_log_probability&, const token_log_probability&) = default;
};

/// A committed token and the likeliest tokens of its row, the likeliest first, the lower id first among equals.
struct scored_token {
    token_log_probability chosen;
    std::vector<token_log_probability> top;

    friend bool operator==(const scored_token&, const scored_token&) = default;
};

/// An observer for the decoders that appends one entry for every committed token.
class log_probability_recorder {
public:
    /// `entries` outlives the recorder; null: nothing is recorded. `top` >= 0: how many of the likeliest to keep.
    /// Errors: config_error.
    explicit log_probability_recorder(std::vector<scored_token>* entries = nullptr, index top = 0)
        : entries_(entries), top_(top) {
        if (top < 0) {
            raise<config_error>("logprobs: got ", top, ", needs 0 or more");
        }
    }

    void operator()(const round_event<>& round) const {
        for (index i = 0; entries_ != nullptr && i < size_of(round.tokens); ++i) {
            entries_->push_back(score(round.logits.row(i), round.tokens[static_cast<std::size_t>(i)], top_));
        }
    }

    /// One row (v). `top` above v gives v entries.
    [[nodiscard]] static scored_token score(std::span<const float> row, token_id token, index top) {
        const numerics::softmax_norm norm = numerics::normalise(row.data(), size_of(row));
        const auto entry = [&](token_id id) {
            return token_log_probability{id, numerics::log_probability(row[static_cast<std::size_t>(id)], norm)};
        };
        scored_token out{.chosen = entry(token), .top = {}};
        std::vector<token_id> ids(row.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            ids[i] = static_cast<token_id>(i);
        }
        const index count = (std::min)(top, size_of(row));
        std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [row](token_id a, token_id b) {
            const float x = row[static_cast<std::size_t>(a)];
            const float y = row[static_cast<std::size_t>(b)];
            return x > y || (x == y && a < b);
        });
        for (index i = 0; i < count; ++i) {
            out.top.push_back(entry(ids[static_cast<std::size_t>(i)]));
        }
        return out;
    }

private:
    std::vector<scored_token>* entries_;
    index top_;
};

DFLASH_END_NAMESPACE
