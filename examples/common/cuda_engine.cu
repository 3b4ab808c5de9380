// The engine on a CUDA device: forwards, drafts and verdicts happen there, and a round brings back a few integers.
//
// What needs logits or samplers on the host is refused by name. As plain C++ this file runs in the simulator.
#include "common/cuda_engine.hpp"

#include <optional>
#include <span>

#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "common/no_device.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace {

class cuda_engine final : public engine {
    using target_type = target_transformer<cuda::exact>;
    using draft_type = draft_transformer<cuda::exact>;
    using drafter_type = dflash_drafter<draft_type, target_type, no_observer, cuda::draft_choice>;
    using decoder_type = speculative_decoder<target_type, drafter_type, categorical<>, cuda::sample_and_match>;

    struct draft_part {
        draft_part(const draft_to_pack& from, target_type& target, const cuda::exact& ops,
                   const engine_options& options)
            : draft(from.shape, from.weights, ops),
              drafter(draft, target, {}, choice_of(options.sampling, ops)),
              block_size(options.block_size == 0 ? from.shape.block_size : options.block_size),
              decoder(target, drafter, fixed_block(block_size), categorical<>(options.sampling.law),
                      cuda::sample_and_match(ops)) {}

        static cuda::draft_choice choice_of(const sampling_choice& sampling, const cuda::exact& ops) {
            return sampling.drafts == draft_kind::coupled ? cuda::draft_choice(ops, sampling.law)
                                                          : cuda::draft_choice(ops);
        }

        draft_type draft;
        drafter_type drafter;
        index block_size;
        decoder_type decoder;
    };

public:
    cuda_engine(const engine_options& options, const target_shape& shape, const target_weights& weights,
                const draft_to_pack* draft)
        : ops_({.activation = options.activation}),
          target_(shape, weights, draft != nullptr ? std::span<const index>(draft->shape.taps) : no_taps(), ops_),
          noise_(options.sampling.noise),
          serial_(target_, categorical<>(options.sampling.law), cuda::sample_and_match(ops_)) {
        if (draft != nullptr) {
            draft_.emplace(*draft, target_, ops_, options);
        }
    }

    [[nodiscard]] const target_shape& shape() const override { return target_.shape(); }
    [[nodiscard]] bool has_draft() const override { return draft_.has_value(); }
    [[nodiscard]] index block_size() const override { return draft_ ? draft_->block_size : 1; }
    void set_threads(int /*threads*/) override {}

    generation_result serial(std::span<const token_id> prompt, const generation_limits& limits,
                             const round_watcher& watcher, const recordings& record) override {
        refuse(record);
        return serial_.generate(
            prompt, limits, [&](const round_view& round) { return !watcher || watcher(round); }, noise_);
    }

    generation_result speculative(std::span<const token_id> prompt, const generation_limits& limits,
                                  const round_watcher& watcher, const recordings& record) override {
        if (!draft_) {
            raise<config_error>("draft: speculative decoding needs a draft, and none was given");
        }
        refuse(record);
        return draft_->decoder.generate(
            prompt, limits, [&](const round_view& round) { return !watcher || watcher(round); }, noise_);
    }

    testing::lossless_report verify(std::span<const std::vector<token_id>> /*prompts*/,
                                    const generation_limits& /*limits*/, index /*block_size*/) override {
        raise<config_error>("--backend cuda: logits stay on the device, so they cannot be compared here");
    }

private:
    static std::span<const index> no_taps() { return {}; }

    static void refuse(const recordings& record) {
        const char* option = record.tensors != nullptr  ? "--dump"
                             : record.rounds != nullptr ? "--trace"
                             : record.scores != nullptr ? "--logprobs"
                                                        : nullptr;
        if (option != nullptr) {
            raise<config_error>(option, ": --backend cuda keeps logits on the device, where this cannot see them");
        }
    }

    cuda::exact ops_;
    target_type target_;
    noise_key noise_;
    serial_decoder<target_type, categorical<>, cuda::sample_and_match> serial_;
    std::optional<draft_part> draft_;
};

}  // namespace

void check_cuda_options(const engine_options& options) {
    const sampling_choice& sampling = options.sampling;
    if (sampling.acceptance != acceptance_kind::match) {
        raise<config_error>("--acceptance: --backend cuda has match only");
    }
    if (sampling.drafts == draft_kind::sampled) {
        raise<config_error>("--draft-sampling sampled: --backend cuda has argmax and coupled only");
    }
    if (sampling.has_penalties()) {
        raise<config_error>(
            "--repetition-penalty, --frequency-penalty, --presence-penalty: --backend cuda has no penalties");
    }
    if (options.adaptive) {
        raise<config_error>(
            "--adaptive: --backend cuda has blocks of a fixed length only: the times of drafting and verification, "
            "which the choice depends on, run into each other on a device");
    }
    if (options.threads != 0) {
        raise<config_error>("--threads: --backend cuda computes on the device");
    }
    static_cast<void>(cuda::detail::followed(sampling.law, sampling.noise));
}

void require_cuda_device() {
    if (cuda::runtime::device_count() == 0) {
        throw no_device("cuda: no device was found");
    }
}

std::unique_ptr<engine> make_cuda_engine(const engine_options& options, const target_shape& shape,
                                         const target_weights& weights, const draft_to_pack* draft) {
    return std::make_unique<cuda_engine>(options, shape, weights, draft);
}

}  // namespace examples
DFLASH_END_NAMESPACE
