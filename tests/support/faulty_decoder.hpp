// A second, plain speculative loop with a switch for every mistake that is easy to make in it.
//
// With fault::none it must pass every property; with any other it must not. It shares the account and the statistics
// with the library, and none of the loop.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <dflash/decode/acceptance.hpp>
#include <dflash/decode/session.hpp>

namespace dflash::test {

enum class fault {
    none,
    crop_one_too_far,          ///< one row that was committed is rolled back
    crop_one_too_few,          ///< one rejected row stays
    crop_never,                ///< rejected rows stay
    crop_only_when_rejecting,  ///< the full-accept case handled apart, and wrongly
    first_draft_unchecked,     ///< draft i + 1 is compared with the row of draft i
    accepts_one_too_many,      ///< the first wrong draft stands
    accepts_none,              ///< lossless, and useless
    accepts_one_too_few,       ///< lossless, and slow
    bonus_from_previous_row,   ///< the row of the last accepted draft's predecessor
    bonus_from_last_row,       ///< the last row of the block, whatever was accepted
    budget_per_round,          ///< tested after the round, not inside; the block is not clipped
    stop_per_round,            ///< only the last token of the round is looked at
    sequence_per_round,        ///< stop sequences are not matched across rounds
    block_past_room,           ///< the block is not clipped to what may still be committed
    features_of_rejected,      ///< the drafter is given all rows of the block
    features_one_late,         ///< the rows of the tokens after
    drafter_told_too_little,   ///< the newest committed position is withheld
    drafter_told_bonus,        ///< the anchor, which is not cached yet, is told too
    drafter_not_rolled_back,   ///< after a call that raised
    cache_not_rolled_back,     ///< after a call that raised
    history_of_drafts,         ///< the sampler is told of rejected drafts
    history_never,             ///< the sampler is told of nothing
    history_not_forked,        ///< the sampler is told while checking, and again when committing
    ties_to_the_last,          ///< verification breaks ties the other way than prefill
    mask_id_is_empty,          ///< a token that equals the mask id is dropped
    last_prompt_row_only,      ///< features of the prompt's last chunk only
    not_reset,                 ///< the drafter keeps the former sequence
    bad_rows_raise_at_once,    ///< also rows behind the end of the round
    bad_rows_ignored,          ///< NaN and infinity are sampled
    one_round_after_the_end,   ///< a first token that ends the text is not looked at
    stats_before_the_cut,      ///< statistics count tokens that were cut
    silent_draft_stalls,       ///< no drafts, no progress
};

inline constexpr fault every_fault[] = {
    fault::crop_one_too_far,
    fault::crop_one_too_few,
    fault::crop_never,
    fault::crop_only_when_rejecting,
    fault::first_draft_unchecked,
    fault::accepts_one_too_many,
    fault::accepts_none,
    fault::accepts_one_too_few,
    fault::bonus_from_previous_row,
    fault::bonus_from_last_row,
    fault::budget_per_round,
    fault::stop_per_round,
    fault::sequence_per_round,
    fault::block_past_room,
    fault::features_of_rejected,
    fault::features_one_late,
    fault::drafter_told_too_little,
    fault::drafter_told_bonus,
    fault::drafter_not_rolled_back,
    fault::cache_not_rolled_back,
    fault::history_of_drafts,
    fault::history_never,
    fault::history_not_forked,
    fault::ties_to_the_last,
    fault::mask_id_is_empty,
    fault::last_prompt_row_only,
    fault::not_reset,
    fault::bad_rows_raise_at_once,
    fault::bad_rows_ignored,
    fault::one_round_after_the_end,
    fault::stats_before_the_cut,
    fault::silent_draft_stalls,
};

/// What the suite looks at of an account.
struct plain_account {
    std::vector<token_id> tokens;
    std::size_t prompt = 0;
    generation_limits limits{};
    index context = 0;
    finish_reason reason = finish_reason::running;

    [[nodiscard]] index committed() const { return static_cast<index>(tokens.size()); }
    [[nodiscard]] index room() const {
        return (std::min)(static_cast<index>(prompt) + limits.max_new_tokens, context) - committed();
    }
    void settle() {
        const index made = committed() - static_cast<index>(prompt);
        reason = made >= limits.max_new_tokens ? finish_reason::length
                 : committed() >= context      ? finish_reason::context
                                               : finish_reason::running;
    }
    /// Appends one token and says whether the text goes on. `from`: where stop sequences may begin.
    bool push(token_id token, std::size_t from) {
        tokens.push_back(token);
        settle();
        bool stop = std::ranges::find(limits.stop_tokens, token) != limits.stop_tokens.end();
        for (const std::vector<token_id>& s : limits.stop_sequences) {
            stop = stop || (tokens.size() >= from + s.size() && std::equal(s.rbegin(), s.rend(), tokens.rbegin()));
        }
        reason = stop ? finish_reason::stop : reason;
        return reason == finish_reason::running;
    }
};

template <class Model, class Drafter, class Sampler>
class faulty_decoder {
public:
    faulty_decoder(fault f, Model& model, Drafter& drafter, index block, Sampler sampler)
        : fault_(f), model_(model), drafter_(drafter), block_(block), fresh_(std::move(sampler)) {}

    void prime(std::span<const token_id> prompt, const generation_limits& limits) {
        book_ = {};
        book_.tokens.assign(prompt.begin(), prompt.end());
        book_.prompt = prompt.size();
        book_.limits = limits;
        book_.context = limits.context_limit > 0 ? (std::min)(limits.context_limit, model_.max_positions())
                                                 : model_.max_positions();
        book_.settle();
        stats_ = {};
        following_ = true;
        cache_.emplace(model_.make_cache((std::min)(
            book_.committed() + (std::max)(index{0}, book_.room()) + (past_room() ? 20 : 0), model_.max_positions())));
        if (!is(fault::not_reset)) {
            drafter_.reset();
        }
        if constexpr (sequence_sampler<Sampler>) {
            history_.emplace(fresh_.fork());
        }
        if (book_.reason != finish_reason::running) {
            return;
        }
        tell_sampler(prompt);
        std::vector<float> row(static_cast<std::size_t>(model_.vocab_size()));
        for (index first = 0; first < size_of(prompt); first += limits.prefill_chunk) {
            const index m = (std::min)(limits.prefill_chunk, size_of(prompt) - first);
            const bool last = first + m == size_of(prompt);
            std::vector<float> features(static_cast<std::size_t>(m * width()));
            const auto tokens = prompt.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(m));
            model_.forward(tokens, *cache_,
                           {last ? matrix_view<float>(row.data(), 1, model_.vocab_size()) : matrix_view<float>(),
                            taps(features, m)});
            if (last || !is(fault::last_prompt_row_only)) {
                follow(tokens, taps(features, m));
            }
        }
        const token_id token = pick(row, book_.committed());
        book_.push(token, book_.prompt);
        tell_sampler({&token, 1});
        stats_.tokens = 1;
        if (is(fault::one_round_after_the_end) && book_.reason == finish_reason::stop) {
            book_.settle();
        }
    }

    round_view step() {
        if (book_.reason != finish_reason::running) {
            return {};
        }
        const index cached = cache_->length();
        const index context = drafter_.context_length();
        try {
            return round();
        } catch (...) {
            if (!is(fault::cache_not_rolled_back)) {
                cache_->crop((std::min)(cached, cache_->length()));
            }
            if (!is(fault::drafter_not_rolled_back)) {
                drafter_.crop((std::min)(context, drafter_.context_length()));
            }
            throw;
        }
    }

    template <class Callback = detail::ignore_rounds>
    generation_result generate(std::span<const token_id> prompt, const generation_limits& limits,
                               Callback callback = {}) {
        prime(prompt, limits);
        round_view round{.tokens = std::span<const token_id>(book_.tokens).subspan(book_.prompt)};
        while (!round.empty()) {
            if (!detail::deliver(callback, round) && book_.reason == finish_reason::running) {
                book_.reason = finish_reason::cancelled;
            }
            round = step();
        }
        return result();
    }

    [[nodiscard]] generation_result result() const {
        return {.tokens = {book_.tokens.begin() + static_cast<std::ptrdiff_t>(book_.prompt), book_.tokens.end()},
                .reason = book_.reason,
                .stats = stats_};
    }
    [[nodiscard]] const plain_account& account() const { return book_; }
    [[nodiscard]] const typename Model::cache_type& cache() const { return *cache_; }

private:
    [[nodiscard]] bool is(fault f) const { return fault_ == f; }
    [[nodiscard]] bool past_room() const { return is(fault::block_past_room) || is(fault::budget_per_round); }
    [[nodiscard]] index width() const { return drafter_.feature_size(); }
    [[nodiscard]] matrix_view<float> taps(std::vector<float>& rows, index m) const {
        return width() == 0 ? matrix_view<float>() : matrix_view<float>(rows.data(), m, width());
    }

    void tell_sampler(std::span<const token_id> tokens) {
        if constexpr (sequence_sampler<Sampler>) {
            for (const token_id token : tokens) {
                if (!is(fault::history_never)) {
                    history_->advance(token);
                }
            }
        }
    }

    void follow(std::span<const token_id> tokens, matrix_view<const float> rows) {
        following_ = following_ && drafter_.context_length() + size_of(tokens) <= drafter_.max_positions();
        if (following_) {
            drafter_.commit(tokens, rows);
        }
    }

    static void refuse_bad(std::span<const float> row, index position) {
        if (!numerics::all_finite(row.data(), size_of(row))) {
            raise<numeric_error>("logits: the row for position ", position, " holds NaN or infinity");
        }
    }

    token_id pick(std::span<const float> row, index position) {
        if (!is(fault::bad_rows_ignored)) {
            refuse_bad(row, position);
        }
        if constexpr (sequence_sampler<Sampler>) {
            return history_->pick(row, position);
        } else {
            return fresh_.pick(row, position);
        }
    }

    /// What the target draws at each row, as far as the drafts hold; n of them stand.
    template <class S>
    index walk(const S& start, std::span<const token_id> drafts, matrix_view<const float> logits,
               std::vector<token_id>& own) {
        const index n = size_of(drafts);
        std::optional<S> ahead;
        if constexpr (sequence_sampler<S>) {
            ahead.emplace(start.fork());
        }
        for (index i = 0;; ++i) {
            const std::span<const float> row = logits.row(i);
            const index position = book_.committed() + i;
            if (!numerics::all_finite(row.data(), size_of(row)) && !is(fault::bad_rows_ignored)) {
                if (i == 0 || is(fault::bad_rows_raise_at_once)) {
                    refuse_bad(row, position);
                }
                return i;
            }
            token_id token = ahead ? ahead->pick(row, position) : start.pick(row, position);
            if (is(fault::ties_to_the_last)) {
                token =
                    static_cast<token_id>(std::ranges::max_element(row.rbegin(), row.rend()).base() - row.begin() - 1);
            }
            own.push_back(token);
            bool stands = i < n && token == drafts[static_cast<std::size_t>(i)];
            if (is(fault::first_draft_unchecked)) {
                stands = i == 0 ? n > 0
                                : i < n && own[static_cast<std::size_t>(i - 1)] == drafts[static_cast<std::size_t>(i)];
            }
            if (is(fault::accepts_none)) {
                stands = false;
            }
            if (!stands) {
                return i;
            }
            if constexpr (sequence_sampler<S>) {
                ahead->advance(token);
            }
        }
    }

    round_view round() {
        const index committed = book_.committed();
        const index room =
            past_room() ? (std::min)(block_, cache_->capacity() - committed) : (std::min)(block_, book_.room());
        const index asked = (std::min)(room, drafter_.max_positions() - committed);
        std::vector<token_id> rows(static_cast<std::size_t>((std::max)(index{1}, asked)), book_.tokens.back());
        draft_output<> out;
        if (asked >= 2 && following_) {
            out.tokens = std::span<token_id>(rows).subspan(1);
            drafter_.propose({.committed = book_.tokens, .block = asked, .noise = {}}, out);
        }
        if (out.count == 0 && asked >= 2 && is(fault::silent_draft_stalls)) {
            return {};
        }
        rows.resize(static_cast<std::size_t>(out.count) + 1);
        const std::span<const token_id> drafts = std::span<const token_id>(rows).subspan(1);
        const index m = out.count + 1;
        std::vector<float> logits(static_cast<std::size_t>(m * model_.vocab_size()));
        const matrix_view<float> law(logits.data(), m, model_.vocab_size());
        std::vector<float> features(static_cast<std::size_t>((m + 1) * width()));
        model_.forward(rows, *cache_, {law, taps(features, m)});
        if (is(fault::bad_rows_raise_at_once)) {
            for (index i = 0; i < m; ++i) {
                refuse_bad(law.row(i), committed + i);
            }
        }

        std::vector<token_id> own;
        index accepted = 0;
        if constexpr (sequence_sampler<Sampler>) {
            accepted = walk(*history_, drafts, law, own);
        } else {
            accepted = walk(fresh_, drafts, law, own);
        }
        const bool bad = static_cast<index>(own.size()) == accepted;
        if (is(fault::accepts_one_too_many) && accepted < out.count && !bad) {
            ++accepted;
            own.push_back(fresh_.pick(law.row(accepted), committed + accepted));
        }
        if (is(fault::accepts_one_too_few) && accepted > 1 && !bad) {
            --accepted;
            own.pop_back();
        }
        std::vector<token_id> tokens(drafts.begin(), drafts.begin() + accepted);
        if (!bad) {
            tokens.push_back(own.back());
        }
        if (is(fault::bonus_from_previous_row) && accepted > 0) {
            tokens.back() = own[own.size() - 2];
        }
        if (is(fault::bonus_from_last_row) && !bad) {
            tokens.back() = fresh_.pick(law.row(m - 1), committed + accepted);
        }
        if (is(fault::mask_id_is_empty)) {
            std::erase(tokens, token_id{6});
        }

        // Cut, account, roll back, tell.
        const plain_account before = book_;
        const std::size_t from = is(fault::sequence_per_round) ? book_.tokens.size() : book_.prompt;
        index kept = 0;
        for (const token_id token : tokens) {
            ++kept;
            const bool on = book_.push(token, from);
            const bool last = kept == static_cast<index>(tokens.size());
            const bool ignored = (is(fault::budget_per_round) && book_.reason != finish_reason::stop) ||
                                 (is(fault::stop_per_round) && book_.reason == finish_reason::stop);
            if (!on && !(ignored && !last)) {
                break;
            }
        }
        const std::vector<token_id> delivered(book_.tokens.end() - static_cast<std::ptrdiff_t>(kept),
                                              book_.tokens.end());
        const plain_account after = std::exchange(book_, before);

        index length = committed + kept - 1;
        length -= is(fault::crop_one_too_far) ? 1 : 0;
        length += is(fault::crop_one_too_few) ? 1 : 0;
        length -= is(fault::crop_only_when_rejecting) && accepted == out.count ? 1 : 0;
        if (!is(fault::crop_never)) {
            cache_->crop((std::min)((std::max)(length, index{0}), cache_->length()));
        }
        index told = kept;
        told = is(fault::features_of_rejected) ? m : told;
        told -= is(fault::drafter_told_too_little) ? 1 : 0;
        told = (std::min)(told, m);
        std::vector<token_id> cached(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(told));
        matrix_view<const float> kept_rows =
            width() == 0 ? matrix_view<const float>() : taps(features, m).rows(0, told);
        if (is(fault::features_one_late) && width() > 0) {
            kept_rows = taps(features, m + 1).rows(1, told);
        }
        if (is(fault::drafter_told_bonus) && width() == 0) {
            cached.push_back(delivered.empty() ? 0 : delivered.back());
        }
        follow(cached, kept_rows);

        book_ = after;
        tell_sampler(is(fault::history_of_drafts) ? drafts : std::span<const token_id>(delivered));
        if (is(fault::history_not_forked)) {
            tell_sampler(
                std::span<const token_id>(delivered).first(static_cast<std::size_t>((std::min)(accepted, kept))));
        }
        round_report report{.block = m, .drafted = out.count, .accepted = accepted, .committed = kept};
        if (is(fault::stats_before_the_cut)) {
            report.committed = static_cast<index>(tokens.size());
        }
        stats_.record(report);
        return {.tokens = std::span<const token_id>(book_.tokens).last(delivered.size()),
                .accepted = (std::min)(accepted, kept),
                .drafted = out.count};
    }

    fault fault_;
    Model& model_;
    Drafter& drafter_;
    index block_;
    Sampler fresh_;
    std::optional<Sampler> history_;
    plain_account book_;
    decode_stats stats_;
    bool following_ = true;
    std::optional<typename Model::cache_type> cache_;
};

}  // namespace dflash::test
