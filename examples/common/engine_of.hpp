// The engine for one backend: the pieces of the library put together by hand, with observers where they can be watched.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/decode/typical_acceptance.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "common/engine.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Fills the recordings from the events of draft, drafter and decoder. They share it; null: nothing is recorded.
class run_recorder {
public:
    run_recorder() = default;
    run_recorder(const recordings* record, const sampling_choice& choice) : record_(record), sampler_(choice.law) {
        sampler_.reseed(choice.noise);
    }

    void operator()(const tensor_event<>& event) const {
        first_round* tensors = record_ == nullptr ? nullptr : record_->tensors;
        if (tensors == nullptr || !tensors->draft_logits.empty()) {
            return;
        }
        if (event.name == "context") {
            append(event.rows, tensors->context_features);
        } else if (event.name == "draft_logits") {
            append(event.rows, tensors->draft_logits);
        }
    }

    void operator()(const round_event<>& event) const {
        if (record_ == nullptr) {
            return;
        }
        first_round* tensors = record_->tensors;
        if (tensors != nullptr && tensors->verify_logits.empty() && !event.drafts.empty()) {
            append(event.logits, tensors->verify_logits);
        }
        if (record_->rounds != nullptr) {
            record_->rounds->push_back(written_down(event));
        }
        log_probability_recorder(record_->scores, record_->top)(event);
    }

private:
    /// The caches are noted when the round has happened: by the engine, which owns them.
    [[nodiscard]] round_record written_down(const round_event<>& event) const {
        round_record round;
        round.drafts.assign(event.drafts.begin(), event.drafts.end());
        round.committed.assign(event.tokens.begin(), event.tokens.end());
        round.accepted = event.report.accepted;
        for (index row = 0; row <= round.accepted; ++row) {
            round.posterior.push_back(sampler_.pick(event.logits.row(row), event.first + row));
        }
        return round;
    }

    static void append(matrix_view<const float> rows, std::vector<float>& values) {
        for (index r = 0; r < rows.rows(); ++r) {
            values.insert(values.end(), rows.row(r).begin(), rows.row(r).end());
        }
    }

    const recordings* record_ = nullptr;
    categorical<> sampler_;
};

/// Errors: config_error when the backend has no such activations.
template <class Backend>
Backend make_backend(activation_type activation) {
    if constexpr (requires { Backend({.activation = activation}); }) {
        return Backend({.activation = activation});
    } else {
        if (activation != activation_type::f32) {
            raise<config_error>("activation: got ", name_of(activation), ", this backend has f32 only");
        }
        return Backend();
    }
}

template <class Backend>
class engine_of final : public engine {
    using target_type = target_transformer<Backend>;
    using draft_type = draft_transformer<Backend, Backend, typename Backend::cache_type, run_recorder>;
    using drafter_type = dflash_drafter<draft_type, target_type, run_recorder, chosen_drafts>;
    // The reference backend promises no equal bits; the exact one does, and then nothing here can loosen it.
    template <class Rule>
    using decoder_with =
        speculative_decoder<target_type, drafter_type, chosen_sampler, Rule, chosen_block, run_recorder,
                            Rule::lossless ? (std::min)(Backend::guarantee, determinism::batch_invariant)
                                           : allow_numeric_drift>;

    struct draft_part {
        draft_part(const io::draft_checkpoint& loaded, target_type& target, const Backend& backend,
                   run_recorder recorder, const engine_options& options)
            : draft(loaded.shape, loaded.weights, backend, backend, recorder),
              drafter(draft, target, recorder, chosen_drafts(options.sampling)),
              block_size(options.block_size == 0 ? loaded.shape.block_size : options.block_size) {
            const chosen_sampler sampler(options.sampling);
            const chosen_block block(block_size, options.adaptive);
            switch (options.sampling.acceptance) {
                case acceptance_kind::match:
                    match.emplace(target, drafter, block, sampler, sample_and_match{}, recorder);
                    break;
                case acceptance_kind::rejection:
                    rejection.emplace(target, drafter, block, sampler, rejection_sampling<>{}, recorder);
                    break;
                case acceptance_kind::typical:
                    typical.emplace(target, drafter, block, sampler, typical_acceptance{}, recorder);
                    break;
            }
        }

        /// Calls use(decoder) with the one that was chosen.
        template <class Use>
        auto with_decoder(Use use) {
            return match ? use(*match) : rejection ? use(*rejection) : use(*typical);
        }

        draft_type draft;
        drafter_type drafter;
        index block_size;
        std::optional<decoder_with<sample_and_match>> match;
        std::optional<decoder_with<rejection_sampling<>>> rejection;
        std::optional<decoder_with<typical_acceptance>> typical;
    };

public:
    explicit engine_of(const engine_options& options)
        : engine_of(options, io::load_target(options.target), make_backend<Backend>(options.activation)) {}

    [[nodiscard]] const target_shape& shape() const override { return target_.shape(); }
    [[nodiscard]] bool has_draft() const override { return draft_.has_value(); }
    [[nodiscard]] index block_size() const override { return draft_ ? draft_->block_size : 1; }

    void set_threads(int threads) override {
        set_threads_of(target_.backend(), threads);
        if (draft_) {
            set_threads_of(draft_->draft.backend(), threads);
        }
    }

    generation_result serial(std::span<const token_id> prompt, const generation_limits& limits,
                             const round_watcher& watcher, const recordings& record) override {
        record_ = {.tensors = nullptr, .rounds = nullptr, .scores = record.scores, .top = record.top};
        clear_scores();
        return serial_.generate(
            prompt, limits, [&](const round_view& round) { return !watcher || watcher(round); }, noise_);
    }

    generation_result speculative(std::span<const token_id> prompt, const generation_limits& limits,
                                  const round_watcher& watcher, const recordings& record) override {
        draft_part& part = needs_draft();
        record_ = record;
        if (record.tensors != nullptr) {
            *record.tensors = {};
            record.tensors->hidden_size = target_.hidden_size();
            record.tensors->vocab_size = target_.vocab_size();
        }
        if (record.rounds != nullptr) {
            record.rounds->clear();
        }
        clear_scores();
        return part.with_decoder([&](auto& decoder) {
            return decoder.generate(
                prompt, limits,
                [&](const round_view& round) {
                    if (record.rounds != nullptr) {
                        record.rounds->back().target_rows = decoder.cache().length();
                        record.rounds->back().draft_rows = part.drafter.context_length();
                    }
                    return !watcher || watcher(round);
                },
                noise_);
        });
    }

    testing::lossless_report verify(std::span<const std::vector<token_id>> prompts, const generation_limits& limits,
                                    index block_size) override {
        record_ = {};
        return testing::verify_lossless(target_, needs_draft().drafter, chosen_sampler(sampling_), prompts, limits,
                                        fixed_block(block_size), noise_);
    }

private:
    engine_of(const engine_options& options, const io::target_checkpoint& target, const Backend& backend)
        : engine_of(options, target, read_draft(options, target.shape), backend) {}

    engine_of(const engine_options& options, const io::target_checkpoint& target,
              const std::optional<io::draft_checkpoint>& draft, const Backend& backend)
        : target_(target.shape, target.weights, draft ? std::span<const index>(draft->shape.taps) : no_taps(), backend,
                  backend),
          sampling_(options.sampling),
          noise_(options.sampling.noise),
          serial_(target_, chosen_sampler(options.sampling), {}, run_recorder(&record_, options.sampling)) {
        if (draft) {
            draft_.emplace(*draft, target_, backend, run_recorder(&record_, options.sampling), options);
        }
        set_threads(options.threads);
    }

    void clear_scores() const {
        if (record_.scores != nullptr) {
            record_.scores->clear();
        }
    }

    static std::span<const index> no_taps() { return {}; }

    static std::optional<io::draft_checkpoint> read_draft(const engine_options& options, const target_shape& target) {
        return options.draft.empty() ? std::nullopt : std::optional(io::load_draft(options.draft, target));
    }

    static void set_threads_of(Backend& backend, int threads) {
        if constexpr (requires { backend.set_threads(threads); }) {
            backend.set_threads(threads);
        } else {
            static_cast<void>(backend);
            static_cast<void>(threads);
        }
    }

    draft_part& needs_draft() {
        if (!draft_) {
            raise<config_error>("draft: speculative decoding needs a draft, and none was given");
        }
        return *draft_;
    }

    recordings record_;
    target_type target_;
    sampling_choice sampling_;
    noise_key noise_;
    serial_decoder<target_type, chosen_sampler, sample_and_match, run_recorder> serial_;
    std::optional<draft_part> draft_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
