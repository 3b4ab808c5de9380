// The account of one sequence: prompt, committed tokens, ends. It alone decides how many tokens of a round count.
//
// Every end (stop token, stop sequence, budget, context) is tested per token and in one place, so that a block of
// tokens and the same tokens one by one are cut alike.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <dflash/decode/limits.hpp>
#include <dflash/decode/room.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

class ledger {
public:
    ledger() = default;

    /// Opens an account. Errors: config_error for an empty prompt, ids outside the vocabulary, a prompt longer than
    /// the context, or limits that make no sense.
    ledger(std::span<const token_id> prompt, const generation_limits& limits, index vocab_size, index max_positions)
        : tokens_(prompt.begin(), prompt.end()), prompt_length_(size_of(prompt)), limits_(limits) {
        if (prompt.empty()) {
            raise<config_error>("prompt: it is empty; decoding needs at least 1 token to continue");
        }
        if (limits.max_new_tokens < 0) {
            raise<config_error>("max_new_tokens: got ", limits.max_new_tokens, ", needs 0 or more");
        }
        if (limits.context_limit < 0) {
            raise<config_error>("context_limit: got ", limits.context_limit, ", needs 0 or more");
        }
        if (limits.prefill_chunk < 1) {
            raise<config_error>("prefill_chunk: got ", limits.prefill_chunk, ", needs at least 1");
        }
        context_ = limits.context_limit > 0 ? (std::min)(limits.context_limit, max_positions) : max_positions;
        check_ids("prompt", prompt, vocab_size);
        check_ids("stop_tokens", limits.stop_tokens, vocab_size);
        for (const std::vector<token_id>& sequence : limits.stop_sequences) {
            if (sequence.empty()) {
                raise<config_error>("stop_sequences: an empty sequence would match everywhere");
            }
            check_ids("stop_sequences", sequence, vocab_size);
        }
        if (prompt_length_ > context_) {
            raise<config_error>("prompt: ", prompt_length_, " tokens are longer than the context limit ", context_);
        }
        constexpr index enough = 1 << 16;  // the budget and the context may both be boundless
        reserve((std::min)(room(), enough));
        settle();
    }

    /// Makes room for n tokens more, so that append() of as many cannot raise.
    void reserve(index n) { detail::make_room(tokens_, n); }

    /// Prompt and committed tokens; the last one is the anchor.
    [[nodiscard]] std::span<const token_id> tokens() const noexcept { return tokens_; }
    /// Committed tokens without the prompt.
    [[nodiscard]] std::span<const token_id> generated() const noexcept { return tokens().subspan(offset()); }
    [[nodiscard]] index committed() const noexcept { return static_cast<index>(tokens_.size()); }
    [[nodiscard]] index prompt_length() const noexcept { return prompt_length_; }
    [[nodiscard]] const generation_limits& limits() const noexcept { return limits_; }
    [[nodiscard]] finish_reason reason() const noexcept { return reason_; }
    [[nodiscard]] bool finished() const noexcept { return reason_ != finish_reason::running; }

    /// How many more tokens budget and context allow.
    [[nodiscard]] index room() const noexcept {
        const index budget = limits_.max_new_tokens - (committed() - prompt_length_);
        return (std::min)(budget, context_ - committed());
    }

    /// How many of these tokens would be committed, the ends considered. Changes nothing.
    [[nodiscard]] index cut(std::span<const token_id> round) const {
        const index most = (std::min)(size_of(round), room());
        for (index i = 0; i < most; ++i) {
            if (stops(round.first(static_cast<std::size_t>(i + 1)))) {
                return i + 1;
            }
        }
        return most;
    }

    /// Commits what cut() lets through, and decides whether the sequence is over.
    void append(std::span<const token_id> round) {
        const bool stop = stops(round);
        tokens_.insert(tokens_.end(), round.begin(), round.end());
        if (stop) {
            reason_ = finish_reason::stop;
        } else {
            settle();
        }
    }

    /// Ends a running sequence on the caller's word.
    void cancel() noexcept {
        if (!finished()) {
            reason_ = finish_reason::cancelled;
        }
    }

private:
    [[nodiscard]] std::size_t offset() const noexcept { return static_cast<std::size_t>(prompt_length_); }

    static void check_ids(const char* field, std::span<const token_id> ids, index vocab_size) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (ids[i] < 0 || ids[i] >= vocab_size) {
                raise<config_error>(field, ": token ", i, " is ", ids[i], ", the vocabulary is 0 .. ", vocab_size - 1);
            }
        }
    }

    /// Whether the last token of `round`, appended to what is committed, ends the text.
    [[nodiscard]] bool stops(std::span<const token_id> round) const {
        if (round.empty()) {
            return false;
        }
        if (std::find(limits_.stop_tokens.begin(), limits_.stop_tokens.end(), round.back()) !=
            limits_.stop_tokens.end()) {
            return true;
        }
        const std::span<const token_id> before = generated();
        const std::size_t total = before.size() + round.size();
        for (const std::vector<token_id>& sequence : limits_.stop_sequences) {
            if (sequence.size() > total) {
                continue;
            }
            bool equal = true;
            for (std::size_t k = 0; k < sequence.size() && equal; ++k) {
                const std::size_t at = total - sequence.size() + k;
                equal = sequence[k] == (at < before.size() ? before[at] : round[at - before.size()]);
            }
            if (equal) {
                return true;
            }
        }
        return false;
    }

    void settle() noexcept {
        if (limits_.max_new_tokens - (committed() - prompt_length_) <= 0) {
            reason_ = finish_reason::length;
        } else if (committed() >= context_) {
            reason_ = finish_reason::context;
        }
    }

    std::vector<token_id> tokens_;
    index prompt_length_ = 0;
    index context_ = 0;
    generation_limits limits_;
    finish_reason reason_ = finish_reason::running;
};

DFLASH_END_NAMESPACE
