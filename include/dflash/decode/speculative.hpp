// The loop: draft a block, verify it in one forward of the target, accept, commit, roll back.
//
// State between rounds, for N committed tokens (prompt included): the target's cache holds positions 0 .. N - 2, the
// anchor is token N - 1 and not cached yet, the drafter was told of positions 0 .. N - 2 (invariant J, tested in
// checked builds). Losslessness depends on the acceptance rule and on the model's guarantee, never on the drafter.
// A round either happens as a whole or leaves everything as it was. Source: DFlash, arXiv 2602.06036.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include <dflash/concepts/drafter.hpp>
#include <dflash/decode/acceptance.hpp>
#include <dflash/decode/session.hpp>
#include <dflash/numerics/fp_environment.hpp>
#include <dflash/sampling/greedy.hpp>

DFLASH_BEGIN_NAMESPACE

/// Written as the last template argument of speculative_decoder by those who accept that the output may differ from
/// serial decoding: a model without batch invariance, or a lossy acceptance rule.
inline constexpr determinism allow_numeric_drift = determinism::none;

/// Decodes one sequence at a time with a model and a drafter it does not own. Reusable after any end and after an
/// exception. The default form is lossless or does not compile.
template <class Model, class Drafter, class Sampler = greedy, class Acceptance = sample_and_match,
          class Block = fixed_block, class Observer = no_observer, determinism Required = determinism::batch_invariant>
class speculative_decoder {
public:
    static_assert(target_model_check<Model>());
    using space = typename Model::space;
    static_assert(drafter_check<Drafter, Model>());
    static_assert(token_sampler_check<Sampler>());
    static_assert(acceptance_check<Acceptance, Sampler, space>());
    static_assert(round_observer_check<Observer, space>());
    static_assert(block_policy<Block>, "block_policy: needs max_block(), next(limit) and record(round_report)");
    static_assert(Model::guarantee >= Required,
                  "speculative_decoder: the model does not promise the same bits for one row and for a block, so the "
                  "output could differ from serial decoding; write allow_numeric_drift to accept that");
    static_assert(Acceptance::lossless || Required == allow_numeric_drift,
                  "speculative_decoder: the acceptance rule is lossy; write allow_numeric_drift to accept that");

    /// Errors: config_error when the drafter wants features that the model does not give, with both widths.
    speculative_decoder(Model& model, Drafter& drafter, Block block, Sampler sampler = {}, Acceptance rule = {},
                        Observer observer = {})
        : state_(model, std::move(sampler)),
          drafter_(&drafter),
          block_policy_(std::move(block)),
          rule_(std::move(rule)),
          observer_(std::move(observer)) {
        check_features(model, drafter);
    }

    /// Prefills the prompt, tells the drafter of it, and samples the first token.
    /// Errors: config_error (prompt, limits), numeric_error (non-finite logits, no token left), contract_error (a
    /// policy that breaks its axioms, in every build: a token or draft outside the vocabulary would spoil what
    /// follows), and whatever model, drafter, sampler or observer raise.
    void prime(std::span<const token_id> prompt, const generation_limits& limits = {}, noise_key noise = {}) {
        const numerics::fp_environment environment;
        state_.open(prompt, limits, block_policy_.max_block(), noise);
        noise_ = noise;
        drafter_->reset();
        following_ = true;
        if (!state_.book.finished()) {
            make_room();
            detail::stopwatch watch;
            state_.prefill(
                logits_.matrix(1, vocab()), [this](index rows) { return feature_rows(rows); },
                [this](std::span<const token_id> tokens, matrix_view<const float, space> rows) {
                    follow(tokens, rows);
                });
            state_.stats.prefill_seconds = watch.lap();
            const verdict outcome = accept({}, {}, state_.book.committed());
            if (outcome.bad_row >= 0) {
                detail::raise_bad_row(state_.book.committed(), outcome.fault);
            }
            round_[0] = outcome.next;
            state_.stats.sample_seconds += watch.lap();
            const std::span<const token_id> first(round_.data(), 1);
            state_.prepare(first);
            tell(first, {}, {});
            state_.commit(first);
            state_.stats.tokens = 1;
            check_invariant();
        }
        state_.primed = true;
    }

    /// One round. An empty view: the sequence is over. Errors: those of prime() but config_error; the state is as
    /// before the round then.
    round_view step() {
        DFLASH_EXPECTS(state_.primed, "speculative_decoder: step() needs prime() first");
        if (!state_.primed || state_.book.finished()) {
            return {};
        }
        const numerics::fp_environment environment;
        const index committed = state_.book.committed();
        const index block = block_policy_.next(state_.book.room());
        if (block < 1 || block > state_.book.room() || block > rows_) {
            raise<contract_error>("block_policy: chose ", block, ", needs 1 .. ",
                                  (std::min)(state_.book.room(), rows_));
        }
        round_guard guard(*this);
        round_report report;
        detail::stopwatch watch;

        block_[0] = state_.book.tokens().back();
        draft_output<space> draft = propose(block);
        const std::span<const token_id> drafts(block_.data() + 1, static_cast<std::size_t>(draft.count));
        report.drafted = draft.count;
        report.block = draft.count + 1;
        report.draft_seconds = watch.lap();

        const std::span<const token_id> rows(block_.data(), static_cast<std::size_t>(report.block));
        const matrix_view<float, space> features = feature_rows(report.block);
        state_.model().forward(rows, state_.cache(), {logits_.matrix(report.block, vocab()), features});
        report.verify_seconds = watch.lap();

        const verdict outcome = accept(drafts, draft.law, committed);
        if constexpr (!tokens_at_once) {
            check_drafts(drafts);
        }
        if (outcome.bad_row == 0) {
            detail::raise_bad_row(committed, outcome.fault);
        }
        report.accepted = outcome.accepted;
        std::copy_n(drafts.data(), outcome.accepted, round_.data());
        index length = outcome.accepted;
        // A row that cannot be used ends the round before it: serial decoding would deliver the drafts before it, too.
        if (outcome.bad_row < 0) {
            round_[outcome.accepted] = outcome.next;
            ++length;
        }
        const index kept = state_.book.cut({round_.data(), static_cast<std::size_t>(length)});
        const std::span<const token_id> tokens(round_.data(), static_cast<std::size_t>(kept));
        report.committed = kept;
        state_.stats.sample_seconds += watch.lap();

        state_.cache().crop(committed + kept - 1);
        follow(rows.first(static_cast<std::size_t>(kept)), features.empty() ? features : features.rows(0, kept));
        report.draft_seconds += watch.lap();
        state_.prepare(tokens);
        tell(tokens, drafts, report);

        // From here on the round has happened.
        guard.done();
        state_.commit(tokens);
        state_.stats.record(report);
        block_policy_.record(report);
        check_invariant();
        return {.tokens = state_.book.tokens().last(tokens.size()),
                .accepted = (std::min)(report.accepted, kept),
                .drafted = report.drafted};
    }

    /// Runs to an end; `callback(const round_view&)` sees every round (the first holds the token that prefill gave) and
    /// may return false to cancel, which takes effect after the tokens it was handed.
    template <class Callback = detail::ignore_rounds>
    generation_result generate(std::span<const token_id> prompt, const generation_limits& limits = {},
                               Callback callback = {}, noise_key noise = {}) {
        return detail::run_to_end(*this, prompt, limits, callback, noise);
    }
    /// The same without anybody watching.
    generation_result generate(std::span<const token_id> prompt, const generation_limits& limits, noise_key noise) {
        return generate(prompt, limits, detail::ignore_rounds{}, noise);
    }

    /// Ends the sequence before the next step. To be called by the thread that decodes, like everything here.
    void cancel() noexcept { state_.book.cancel(); }
    [[nodiscard]] generation_result result() const { return state_.result(); }
    [[nodiscard]] const ledger& account() const noexcept { return state_.book; }
    [[nodiscard]] const decode_stats& stats() const noexcept { return state_.stats; }
    /// The target's cache of the sequence. Errors: contract_error before the first prime().
    [[nodiscard]] const typename Model::cache_type& cache() const { return state_.cache(); }
    [[nodiscard]] Observer& observer() noexcept { return observer_; }

private:
    /// Rolls target and drafter back to invariant J unless the round was finished.
    class round_guard {
    public:
        explicit round_guard(speculative_decoder& decoder)
            : decoder_(decoder),
              cache_(decoder.state_.cache()),
              context_(decoder.drafter_->context_length()),
              following_(decoder.following_) {}
        round_guard(const round_guard&) = delete;
        round_guard& operator=(const round_guard&) = delete;
        ~round_guard() {
            if (done_) {
                return;
            }
            decoder_.following_ = following_;
            if (decoder_.drafter_->context_length() > context_) {
                decoder_.drafter_->crop(context_);
            }
        }
        void done() noexcept {
            done_ = true;
            cache_.done();
        }

    private:
        speculative_decoder& decoder_;
        detail::cache_guard<typename Model::cache_type> cache_;
        index context_;
        bool following_;
        bool done_ = false;
    };

    using tokens_in = typename token_space<space>::type;
    /// Whether drafts can be read as soon as they are proposed, or only when the verdict is there.
    static constexpr bool tokens_at_once = std::is_same_v<tokens_in, host_space>;

    [[nodiscard]] index vocab() const { return state_.model().vocab_size(); }

    /// A drafter that listens to a model which says nothing would be given rows of zeros.
    static void check_features(const Model& model, const Drafter& drafter) {
        index given = 0;
        if constexpr (requires { model.feature_size(); }) {
            given = model.feature_size();
        }
        if (drafter.feature_size() != 0 && drafter.feature_size() != given) {
            raise<config_error>("drafter: feature_size is ", drafter.feature_size(), ", the model gives ", given);
        }
    }

    /// Everything a round writes to is allocated here, once per prime.
    void make_room() {
        const index room = state_.book.room();
        rows_ = (std::max)(index{1}, (std::min<index>)(block_policy_.max_block(), room));
        const index chunk = (std::min)(state_.book.limits().prefill_chunk, state_.book.prompt_length());
        grow(logits_, rows_ * vocab());
        grow(features_, (std::max)(rows_, chunk) * drafter_->feature_size());
        grow(block_, rows_);
        grow(round_, rows_);
        drafter_->reserve((std::min<index>)(state_.book.committed() + room, drafter_->max_positions()));
    }

    template <class T, class Space>
    static void grow(buffer<T, Space>& memory, index size) {
        if (memory.size() < size) {
            memory = buffer<T, Space>();
            memory = buffer<T, Space>(size);
        }
    }

    [[nodiscard]] matrix_view<float, space> feature_rows(index rows) {
        return drafter_->feature_size() == 0 ? matrix_view<float, space>()
                                             : features_.matrix(rows, drafter_->feature_size());
    }

    draft_output<space> propose(index block) {
        draft_output<space> out;
        // The drafter's own context limit ends drafting, not decoding.
        block = (std::min<index>)(block, drafter_->max_positions() - state_.book.committed());
        if (block < 2 || !following_) {
            return out;
        }
        out.tokens = {block_.data() + 1, static_cast<std::size_t>(block - 1)};
        drafter_->propose({.committed = state_.book.tokens(), .block = block, .noise = noise_}, out);
        if (out.count < 0 || out.count > block - 1) {
            raise<contract_error>("drafter: proposed ", out.count, " tokens, was asked for at most ", block - 1);
        }
        if constexpr (tokens_at_once) {
            check_drafts(out.tokens.first(static_cast<std::size_t>(out.count)));
        }
        return out;
    }

    void check_drafts(std::span<const token_id> drafts) const {
        for (const token_id token : drafts) {
            detail::check_token("drafter", token, vocab());
        }
    }

    verdict accept(std::span<const token_id> drafts, const draft_law<space>& law, index position) {
        const verdict outcome = rule_.accept(accept_call<space>{.drafts = drafts,
                                                                .logits = logits_.matrix(size_of(drafts) + 1, vocab()),
                                                                .draft_law = law,
                                                                .position = position,
                                                                .noise = noise_},
                                             state_.sampler());
        if (outcome.accepted < 0 || outcome.accepted > size_of(drafts)) {
            raise<contract_error>("acceptance_rule: accepted ", outcome.accepted, " of ", drafts.size(), " drafts");
        }
        if (outcome.bad_row >= 0 && outcome.bad_row != outcome.accepted) {
            raise<contract_error>("acceptance_rule: accepted ", outcome.accepted, " drafts and stopped at row ",
                                  outcome.bad_row);
        }
        if (outcome.bad_row < 0) {
            detail::check_token("sampler", outcome.next, vocab());
        }
        return outcome;
    }

    /// Tells the drafter of positions that are cached now; stops for good where its own context ends.
    void follow(std::span<const token_id> tokens, matrix_view<const float, space> features) {
        if (following_ && drafter_->context_length() + size_of(tokens) > drafter_->max_positions()) {
            following_ = false;
        }
        if (following_) {
            drafter_->commit(tokens, features);
        }
    }

    void tell(std::span<const token_id> tokens, std::span<const token_id> drafts, const round_report& report) {
        notify<round_event<space>>(observer_, [&] {
            return round_event<space>{.first = state_.book.committed(),
                                      .drafts = drafts,
                                      .tokens = tokens,
                                      .logits = logits_.matrix(size_of(drafts) + 1, vocab()),
                                      .report = report};
        });
    }

    void check_invariant() const {
        DFLASH_EXPECTS(state_.cache().length() == state_.book.committed() - 1, "invariant J: the target's cache holds ",
                       state_.cache().length(), " positions, ", state_.book.committed(), " tokens are committed");
        DFLASH_EXPECTS(!following_ || drafter_->context_length() == state_.book.committed() - 1,
                       "invariant J: the drafter's context holds ", drafter_->context_length(), " positions, ",
                       state_.book.committed(), " tokens are committed");
    }

    detail::sequence_state<Model, Sampler> state_;
    Drafter* drafter_;
    Block block_policy_;
    Acceptance rule_;
    Observer observer_;
    noise_key noise_;
    bool following_ = true;
    index rows_ = 1;
    buffer<float, space> logits_;        // (B, v)
    buffer<float, space> features_;      // (max(B, prefill chunk), k*d)
    buffer<token_id, tokens_in> block_;  // (B) anchor and drafts
    buffer<token_id> round_;             // (B) tokens of the round
};

DFLASH_END_NAMESPACE
