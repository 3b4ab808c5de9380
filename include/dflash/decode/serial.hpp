// Plain decoding, one token a forward: the oracle that speculative decoding is held against.
//
// It shares the account of ends and the prefill with the speculative loop, and nothing of drafting, verification or
// rollback.
#pragma once

#include <concepts>
#include <span>
#include <utility>

#include <dflash/decode/acceptance.hpp>
#include <dflash/decode/session.hpp>
#include <dflash/numerics/fp_environment.hpp>
#include <dflash/sampling/greedy.hpp>

DFLASH_BEGIN_NAMESPACE

/// Decodes one sequence at a time on a model it does not own. Reusable after any end and after an exception.
template <class Model, class Sampler = greedy, class Acceptance = sample_and_match, class Observer = no_observer>
class serial_decoder {
public:
    static_assert(target_model_check<Model>());
    using space = typename Model::space;
    static_assert(token_sampler_check<Sampler>());
    static_assert(acceptance_check<Acceptance, Sampler, space>());
    static_assert(round_observer_check<Observer, space>());

    explicit serial_decoder(Model& model, Sampler sampler = {}, Acceptance rule = {}, Observer observer = {})
        : state_(model, std::move(sampler)),
          rule_(std::move(rule)),
          observer_(std::move(observer)),
          logits_(model.vocab_size()),
          anchor_(1) {}

    /// Prefills the prompt and samples the first token. Errors: config_error (prompt, limits), numeric_error
    /// (non-finite logits, no token left), contract_error (a sampler that breaks its axioms), and whatever model,
    /// sampler or observer raise.
    void prime(std::span<const token_id> prompt, const generation_limits& limits = {}, noise_key noise = {}) {
        const numerics::fp_environment environment;
        state_.open(prompt, limits, 1, noise);
        noise_ = noise;
        if (!state_.book.finished()) {
            detail::stopwatch watch;
            state_.prefill(
                row(), [](index) { return matrix_view<float, space>(); },
                [](std::span<const token_id>, matrix_view<const float, space>) {});
            state_.stats.prefill_seconds = watch.lap();
            const token_id token = sample();
            state_.prepare({&token, 1});
            tell(token);
            state_.commit({&token, 1});
            state_.stats.tokens = 1;
        }
        state_.primed = true;
    }

    /// Decodes one token. An empty view: the sequence is over. Errors: those of prime() but config_error; the state is
    /// as before then.
    round_view step() {
        DFLASH_EXPECTS(state_.primed, "serial_decoder: step() needs prime() first");
        if (!state_.primed || state_.book.finished()) {
            return {};
        }
        const numerics::fp_environment environment;
        detail::cache_guard guard(state_.cache());
        detail::stopwatch watch;
        anchor_[0] = state_.book.tokens().back();
        state_.model().forward({anchor_.data(), 1}, state_.cache(), {row(), {}});
        round_report report;
        report.verify_seconds = watch.lap();
        const token_id token = sample();
        state_.prepare({&token, 1});
        tell(token);
        guard.done();
        state_.commit({&token, 1});
        report.committed = 1;
        state_.stats.record(report);
        return {.tokens = state_.book.tokens().last(1), .accepted = 0, .drafted = 0};
    }

    /// Runs to an end; `callback(const round_view&)` sees every token and may return false to cancel.
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
    /// The target's cache of the sequence. Errors: contract_error before the first prime().
    [[nodiscard]] const typename Model::cache_type& cache() const { return state_.cache(); }

private:
    [[nodiscard]] matrix_view<float, space> row() { return logits_.matrix(1, state_.model().vocab_size()); }

    token_id sample() {
        detail::stopwatch watch;
        const index position = state_.book.committed();
        const verdict outcome = rule_.accept(
            accept_call<space>{.drafts = {}, .logits = row(), .draft_law = {}, .position = position, .noise = noise_},
            state_.sampler());
        if (outcome.bad_row >= 0) {
            detail::raise_bad_row(position, outcome.fault);
        }
        detail::check_token("sampler", outcome.next, state_.model().vocab_size());
        state_.stats.sample_seconds += watch.lap();
        return outcome.next;
    }

    void tell(const token_id& token) {
        notify<round_event<space>>(observer_, [&] {
            return round_event<space>{
                .first = state_.book.committed(), .drafts = {}, .tokens = {&token, 1}, .logits = row(), .report = {}};
        });
    }

    detail::sequence_state<Model, Sampler> state_;
    Acceptance rule_;
    Observer observer_;
    buffer<float, space> logits_;                                 // (v)
    buffer<token_id, typename token_space<space>::type> anchor_;  // (1)
    noise_key noise_;
};

DFLASH_END_NAMESPACE
