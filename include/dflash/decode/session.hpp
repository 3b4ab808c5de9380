// What serial and speculative decoding share: the cache, the sampler's history, prefill, delivery, the result.
//
// Kept apart from the loops so that each loop shows only what is its own.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <dflash/buffer.hpp>
#include <dflash/concepts/acceptance.hpp>
#include <dflash/concepts/drafter.hpp>
#include <dflash/concepts/model.hpp>
#include <dflash/concepts/observer.hpp>
#include <dflash/concepts/sampler.hpp>
#include <dflash/decode/ledger.hpp>
#include <dflash/decode/stats.hpp>

DFLASH_BEGIN_NAMESPACE

namespace detail {

/// Crops the cache back to where it was unless the work was finished: a step that throws leaves no trace.
template <class Cache>
class cache_guard {
public:
    explicit cache_guard(Cache& cache) : cache_(cache), length_(cache.length()) {}
    cache_guard(const cache_guard&) = delete;
    cache_guard& operator=(const cache_guard&) = delete;
    ~cache_guard() {
        if (!done_ && cache_.length() > length_) {
            cache_.crop(length_);
        }
    }
    void done() noexcept { done_ = true; }

private:
    Cache& cache_;
    index length_;
    bool done_ = false;
};

/// State of one sequence on one model.
template <class Model, class Sampler>
class sequence_state {
public:
    using space = typename Model::space;

    sequence_state(Model& model, Sampler sampler) : model_(&model), fresh_(std::move(sampler)) {}

    [[nodiscard]] Model& model() const noexcept { return *model_; }
    [[nodiscard]] typename Model::cache_type& cache() { return *cache_; }
    /// Errors: contract_error when there is none.
    [[nodiscard]] const typename Model::cache_type& cache() const {
        if (!cache_) {
            raise<contract_error>("cache: there is none before prime()");
        }
        return *cache_;
    }
    /// Answers for the position after the committed tokens; one with history has seen exactly those.
    [[nodiscard]] Sampler& sampler() noexcept { return history() ? *history() : fresh_; }

    /// Opens the account and makes room; no forward yet. `rows` is the largest block.
    void open(std::span<const token_id> prompt, const generation_limits& limits, index rows, noise_key noise) {
        primed = false;
        book = ledger(prompt, limits, model_->vocab_size(), model_->max_positions());
        stats = decode_stats{};
        stats.reserve(book.room(), rows);
        if constexpr (requires { fresh_.reseed(noise); }) {
            fresh_.reseed(noise);
        }
        if constexpr (sequence_sampler<Sampler>) {
            history().emplace(fresh_.fork());
            for (const token_id token : book.tokens()) {
                history()->advance(token);
            }
            if constexpr (requires { history()->start(); }) {
                history()->start();
            }
        }
        const index capacity = (std::max)(book.prompt_length(), book.committed() + book.room() - 1);
        if (!cache_ || cache_->capacity() < capacity) {
            cache_.reset();
            cache_.emplace(model_->make_cache(capacity));
        } else {
            cache_->crop(0);
        }
    }

    /// Makes room for these tokens and works out the sampler's history with them. Apart from commit(), so that what
    /// raises here changes nothing.
    void prepare(std::span<const token_id> tokens) {
        book.reserve(size_of(tokens));
        stats.reserve_round();
        if constexpr (sequence_sampler<Sampler>) {
            std::optional<Sampler>& ahead = histories_[1 - current_];
            ahead.emplace(history()->fork());
            for (const token_id token : tokens) {
                ahead->advance(token);
            }
        }
    }

    /// Enters the tokens that prepare() was given.
    void commit(std::span<const token_id> tokens) {
        book.append(tokens);
        if constexpr (sequence_sampler<Sampler>) {
            current_ = 1 - current_;  // nothing is moved, so nothing can raise
        }
    }

    /// Runs the prompt through the model in chunks and hands (tokens, first position) of each to `after`.
    /// Logits of the last prompt token go to `logits` (1, v).
    template <class Features, class After>
    void prefill(matrix_view<float, space> logits, Features features, After after) {
        const std::span<const token_id> prompt = book.tokens();
        const index chunk = book.limits().prefill_chunk;
        for (index first = 0; first < size_of(prompt); first += chunk) {
            const index count = (std::min)(chunk, size_of(prompt) - first);
            const auto tokens = prompt.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
            const bool last = first + count == size_of(prompt);
            const matrix_view<float, space> rows = features(count);
            const matrix_view<float, space> none;
            model_->forward(tokens, cache(), {last ? logits : none, rows});
            after(tokens, rows);
        }
    }

    [[nodiscard]] generation_result result() const {
        const auto tokens = book.generated();
        return {{tokens.begin(), tokens.end()}, book.reason(), stats};
    }

    ledger book;
    decode_stats stats;
    bool primed = false;

private:
    [[nodiscard]] std::optional<Sampler>& history() noexcept { return histories_[current_]; }

    Model* model_;
    Sampler fresh_;
    std::array<std::optional<Sampler>, 2> histories_;  // samplers with history only: the committed one and the next
    std::size_t current_ = 0;
    std::optional<typename Model::cache_type> cache_;
};

/// Hands a round to a callback that returns nothing or whether to go on; false when it wants to stop.
template <class Callback>
bool deliver(Callback& callback, const round_view& round) {
    if constexpr (std::is_void_v<std::invoke_result_t<Callback&, const round_view&>>) {
        callback(round);
        return true;
    } else {
        return static_cast<bool>(callback(round));
    }
}

/// The token must be an id of the vocabulary: a sampler or a drafter that breaks this would corrupt the next forward.
inline void check_token(const char* who, token_id token, index vocab_size) {
    if (token < 0 || token >= vocab_size) {
        raise<contract_error>(who, ": returned token ", token, ", the vocabulary is 0 .. ", vocab_size - 1);
    }
}

/// The row of a token that is to be committed cannot be used.
[[noreturn]] inline void raise_bad_row(index position, row_fault fault) {
    if (fault == row_fault::nothing_left) {
        raise<numeric_error>("sampler: no token is left for position ", position, ", every one of them is forbidden");
    }
    raise<numeric_error>("logits: the row for position ", position, " holds NaN or infinity");
}

/// Primes a decoder and steps it to an end, handing every round to the callback.
template <class Decoder, class Callback>
generation_result run_to_end(Decoder& decoder, std::span<const token_id> prompt, const generation_limits& limits,
                             Callback& callback, noise_key noise) {
    decoder.prime(prompt, limits, noise);
    round_view round{.tokens = decoder.account().generated(), .accepted = 0, .drafted = 0};
    while (!round.empty()) {
        if (!deliver(callback, round)) {
            decoder.cancel();
        }
        round = decoder.step();
    }
    return decoder.result();
}

/// The callback of callers that do not want to watch.
struct ignore_rounds {
    void operator()(const round_view&) const noexcept {}
};

}  // namespace detail

DFLASH_END_NAMESPACE
