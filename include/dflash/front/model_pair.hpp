// The ready-made front: two checkpoint folders in, tokens out.
//
// It loads, packs and wires a target and its DFlash draft with plain defaults. Whoever wants another cache, sampler,
// acceptance rule or engine uses the pieces it is made of. Needs dflash::io and a backend.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/drafting.hpp>

DFLASH_BEGIN_NAMESPACE

/// How a pair is set up.
struct pair_options {
    io::load_options load;                        ///< what the loader may assume
    index block_size = 0;                         ///< anchor included; 0: the draft's own
    bool stop_at_eos = true;                      ///< add the checkpoint's end tokens to the stop tokens of every call
    sampling_options sampling{.temperature = 0};  ///< greedy; any other law is drawn from, see generate()
};

/// A target and its draft on one backend. Lossless: with the same key generate() gives what generate_serial() gives, at
/// every temperature. Drafts are coupled to the target's draws.
template <class Backend>
class model_pair {
public:
    using target_type = target_transformer<Backend>;
    using draft_type = draft_transformer<Backend>;
    using drafter_type = dflash_drafter<draft_type, target_type, no_observer, coupled_drafts<>>;

    /// Loads both folders. Errors: io_error, config_error, backend_error; the message names file, key and numbers.
    model_pair(const std::string& target_folder, const std::string& draft_folder, pair_options options = {},
               const Backend& backend = Backend())
        : model_pair(io::load_pair(target_folder, draft_folder, options.load), options, backend) {}

    [[nodiscard]] target_type& target() noexcept { return target_; }
    [[nodiscard]] draft_type& draft() noexcept { return draft_; }
    [[nodiscard]] drafter_type& drafter() noexcept { return drafter_; }
    [[nodiscard]] index block_size() const noexcept { return block_size_; }

    /// Speculative decoding; `callback(const round_view&)` sees every round and may return false to cancel. `noise` is
    /// the key of all draws: the same key, the same text; without effect at temperature 0.
    template <class Callback = detail::ignore_rounds>
    generation_result generate(std::span<const token_id> prompt, generation_limits limits = {}, Callback callback = {},
                               noise_key noise = {}) {
        return speculative_.generate(prompt, with_eos(std::move(limits)), std::move(callback), noise);
    }
    /// The same without anybody watching.
    generation_result generate(std::span<const token_id> prompt, generation_limits limits, noise_key noise) {
        return generate(prompt, std::move(limits), detail::ignore_rounds{}, noise);
    }

    /// Plain decoding of the same target: the oracle.
    template <class Callback = detail::ignore_rounds>
    generation_result generate_serial(std::span<const token_id> prompt, generation_limits limits = {},
                                      Callback callback = {}, noise_key noise = {}) {
        return serial_.generate(prompt, with_eos(std::move(limits)), std::move(callback), noise);
    }
    /// The same without anybody watching.
    generation_result generate_serial(std::span<const token_id> prompt, generation_limits limits, noise_key noise) {
        return generate_serial(prompt, std::move(limits), detail::ignore_rounds{}, noise);
    }

    /// The limits with the checkpoint's end tokens among the stop tokens, as generate() uses them.
    [[nodiscard]] generation_limits with_eos(generation_limits limits) const {
        if (stop_at_eos_) {
            for (const token_id token : target_.shape().eos_tokens) {
                if (std::find(limits.stop_tokens.begin(), limits.stop_tokens.end(), token) ==
                    limits.stop_tokens.end()) {
                    limits.stop_tokens.push_back(token);
                }
            }
        }
        return limits;
    }

private:
    model_pair(const io::pair_checkpoint& loaded, const pair_options& options, const Backend& backend)
        : target_(loaded.target.shape, loaded.target.weights, loaded.draft.shape.taps, backend),
          draft_(loaded.draft.shape, loaded.draft.weights, backend),
          drafter_(draft_, target_, {}, coupled_drafts<>(options.sampling)),
          block_size_(options.block_size == 0 ? draft_.shape().block_size : options.block_size),
          stop_at_eos_(options.stop_at_eos),
          serial_(target_, categorical<>(options.sampling)),
          speculative_(target_, drafter_, fixed_block(block_size_), categorical<>(options.sampling)) {}

    target_type target_;
    draft_type draft_;
    drafter_type drafter_;
    index block_size_;
    bool stop_at_eos_;
    serial_decoder<target_type, categorical<>> serial_;
    speculative_decoder<target_type, drafter_type, categorical<>> speculative_;
};

DFLASH_END_NAMESPACE
