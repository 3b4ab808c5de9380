// A regular expression as a constraint: a token is forbidden unless the text can still become a match with it.
//
// PCRE2 answers the question: a partial match is one that more text could complete. It is asked once for every token of
// the vocabulary, which is fine for small vocabularies; an engine would walk an automaton over a trie of the tokens.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/numerics/basic.hpp>

#include "support/tokenizer_regex.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// What stands behind all copies of a constraint: the pattern and what each token writes.
class token_pattern {
public:
    /// The whole generated text shall match `pattern` (PCRE2 syntax, on bytes). `texts[id]` is what a token writes,
    /// empty for tokens that write nothing and are forbidden; `ends` are the ids that end the text.
    /// Errors: config_error for what is no pattern.
    token_pattern(std::string_view pattern, std::vector<std::string> texts, std::vector<token_id> ends)
        : texts_(std::move(texts)), ends_(std::move(ends)) {
        pattern_ = compiled(pattern);  // by itself, so that no bracket can close the one around it
        pattern_ = compiled("(?:" + std::string(pattern) + ")\\z");  // PCRE2's option for this excludes partial matches
        data_.reset(pcre2_match_data_create_from_pattern_8(pattern_.get(), nullptr));
    }

    enum class outcome : std::uint8_t { never, not_yet, match };

    /// Errors: backend_error when PCRE2 gives up.
    [[nodiscard]] outcome judge(std::string_view text) const {
        const int found = pcre2_match_8(pattern_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), 0,
                                        PCRE2_PARTIAL_SOFT, data_.get(), nullptr);
        if (found == PCRE2_ERROR_NOMATCH) {
            return outcome::never;
        }
        if (found == PCRE2_ERROR_PARTIAL) {
            return outcome::not_yet;
        }
        if (found < 0) {
            raise<backend_error>("--regex: matching failed: ", detail::pcre2_message(found));
        }
        return outcome::match;
    }

    [[nodiscard]] std::string_view text_of(token_id token) const {
        return static_cast<std::size_t>(token) < texts_.size()
                   ? std::string_view(texts_[static_cast<std::size_t>(token)])
                   : std::string_view();
    }
    [[nodiscard]] std::span<const token_id> ends() const noexcept { return ends_; }

private:
    using code = std::unique_ptr<pcre2_code_8, detail::pcre2_deleter>;

    static code compiled(std::string_view pattern) {
        int error = 0;
        PCRE2_SIZE offset = 0;
        code out(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(), PCRE2_ANCHORED, &error,
                                 &offset, nullptr));
        if (out == nullptr) {
            raise<config_error>("--regex: ", detail::pcre2_message(error), " at offset ", offset, " of ", pattern);
        }
        return out;
    }

    std::vector<std::string> texts_;
    std::vector<token_id> ends_;
    code pattern_;
    std::unique_ptr<pcre2_match_data_8, detail::pcre2_deleter> data_;  // scratch: one thread
};

/// A token_constraint (dflash/sampling/constrained.hpp). The prompt is free; what follows it must match.
class regex_constraint {
public:
    explicit regex_constraint(std::shared_ptr<const token_pattern> pattern) : pattern_(std::move(pattern)) {}

    void start() { text_.clear(); }
    void advance(token_id token) { text_ += pattern_->text_of(token); }

    /// -inf for every token after which no match is possible; an end is allowed where the text matches.
    void apply(std::span<float> logits) const {
        std::vector<float> ends;
        for (const token_id end : pattern_->ends()) {
            ends.push_back(logits[static_cast<std::size_t>(end)]);
        }
        std::string longer = text_;
        for (std::size_t id = 0; id < logits.size(); ++id) {
            const std::string_view piece = pattern_->text_of(static_cast<token_id>(id));
            longer.resize(text_.size());
            longer += piece;
            if (piece.empty() || pattern_->judge(longer) == token_pattern::outcome::never) {
                logits[id] = -numerics::infinity;
            }
        }
        const bool complete = pattern_->judge(text_) == token_pattern::outcome::match;
        for (std::size_t i = 0; i < ends.size(); ++i) {
            logits[static_cast<std::size_t>(pattern_->ends()[i])] = complete ? ends[i] : -numerics::infinity;
        }
    }

private:
    std::shared_ptr<const token_pattern> pattern_;
    std::string text_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
