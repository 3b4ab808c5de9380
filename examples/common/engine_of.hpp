// The engine for one backend: the pieces of the library put together by hand, with observers where they can be watched.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "common/engine.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Fills a first_round from the events of draft, drafter and decoder. They share it; null: nothing is recorded.
class first_round_recorder {
public:
    first_round_recorder() = default;
    explicit first_round_recorder(first_round** record) : record_(record) {}

    void operator()(const tensor_event<>& event) const {
        first_round* record = wanted();
        if (record == nullptr || !record->draft_logits.empty()) {
            return;
        }
        if (event.name == "context") {
            append(event.rows, record->context_features);
        } else if (event.name == "draft_logits") {
            append(event.rows, record->draft_logits);
        }
    }

    void operator()(const round_event<>& event) const {
        first_round* record = wanted();
        if (record != nullptr && record->verify_logits.empty() && !event.drafts.empty()) {
            append(event.logits, record->verify_logits);
        }
    }

private:
    [[nodiscard]] first_round* wanted() const noexcept { return record_ == nullptr ? nullptr : *record_; }

    static void append(matrix_view<const float> rows, std::vector<float>& values) {
        for (index r = 0; r < rows.rows(); ++r) {
            values.insert(values.end(), rows.row(r).begin(), rows.row(r).end());
        }
    }

    first_round** record_ = nullptr;
};

template <class Backend>
class engine_of final : public engine {
    using target_type = target_transformer<Backend>;
    using draft_type = draft_transformer<Backend, Backend, typename Backend::cache_type, first_round_recorder>;
    using drafter_type = dflash_drafter<draft_type, target_type, first_round_recorder>;
    // The reference backend promises no equal bits; the exact one does, and then nothing here can loosen it.
    using decoder_type =
        speculative_decoder<target_type, drafter_type, greedy, sample_and_match, fixed_block, first_round_recorder,
                            (std::min)(Backend::guarantee, determinism::batch_invariant)>;

    struct draft_part {
        draft_part(const io::draft_checkpoint& loaded, target_type& target, const Backend& backend,
                   first_round_recorder recorder, index block)
            : draft(loaded.shape, loaded.weights, backend, backend, recorder),
              drafter(draft, target, recorder),
              block_size(block == 0 ? loaded.shape.block_size : block),
              decoder(target, drafter, fixed_block(block_size), {}, {}, recorder) {}

        draft_type draft;
        drafter_type drafter;
        index block_size;
        decoder_type decoder;
    };

public:
    explicit engine_of(const engine_options& options)
        : engine_of(options, io::load_target(options.target), Backend()) {}

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
                             const round_watcher& watcher) override {
        return watcher ? serial_.generate(prompt, limits, watcher) : serial_.generate(prompt, limits);
    }

    generation_result speculative(std::span<const token_id> prompt, const generation_limits& limits,
                                  const round_watcher& watcher, first_round* record) override {
        draft_part& part = needs_draft();
        if (record != nullptr) {
            *record = {};
            record->hidden_size = target_.hidden_size();
            record->vocab_size = target_.vocab_size();
        }
        record_ = record;
        return watcher ? part.decoder.generate(prompt, limits, watcher) : part.decoder.generate(prompt, limits);
    }

    testing::lossless_report verify(std::span<const std::vector<token_id>> prompts, const generation_limits& limits,
                                    index block_size) override {
        record_ = nullptr;
        return testing::verify_lossless(target_, needs_draft().drafter, greedy{}, prompts, limits,
                                        fixed_block(block_size));
    }

private:
    engine_of(const engine_options& options, const io::target_checkpoint& target, const Backend& backend)
        : engine_of(options, target, read_draft(options, target.shape), backend) {}

    engine_of(const engine_options& options, const io::target_checkpoint& target,
              const std::optional<io::draft_checkpoint>& draft, const Backend& backend)
        : target_(target.shape, target.weights, draft ? std::span<const index>(draft->shape.taps) : no_taps(), backend,
                  backend),
          serial_(target_) {
        if (draft) {
            draft_.emplace(*draft, target_, backend, first_round_recorder(&record_), options.block_size);
        }
        set_threads(options.threads);
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

    first_round* record_ = nullptr;
    target_type target_;
    serial_decoder<target_type> serial_;
    std::optional<draft_part> draft_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
