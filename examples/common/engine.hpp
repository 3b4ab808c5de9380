// A target and perhaps a draft behind one plain interface, so that the programs are compiled once and the decoders once
// for each backend.
//
// Programs that embed the library have no need of this: they name their backend, as hello does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dflash/decode/limits.hpp>
#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/stats.hpp>
#include <dflash/model/shape.hpp>
#include <dflash/testing/lossless.hpp>

#include "common/chosen.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

enum class backend_kind : std::uint8_t {
    exact,      ///< the default backend: the same bits for one row and for a block
    reference,  ///< Eigen in float32, which does not promise that: for audits
    cuda,       ///< the bits of exact, on a CUDA device; in builds with DFLASH_CUDA
};

struct engine_options {
    std::string target;     ///< folder
    std::string draft;      ///< folder; empty: serial decoding only
    index block_size = 0;   ///< anchor included; 0: the draft's own
    bool adaptive = false;  ///< choose every block's length, block_size at most
    int threads = 0;        ///< 0: as many as there are
    backend_kind backend = backend_kind::exact;
    activation_type activation = activation_type::f32;  ///< bf16: the exact backend's bf16 tier
    sampling_choice sampling;
};

/// What the first round with drafts saw. Empty until there was one.
struct first_round {
    index hidden_size = 0;
    index vocab_size = 0;
    std::vector<float> context_features;  // (prompt, d)
    std::vector<float> draft_logits;      // (b-1, v)
    std::vector<float> verify_logits;     // (b, v)
};

/// One round as it went by; the first is prefill, which has no drafts.
struct round_record {
    std::vector<token_id> drafts;
    std::vector<token_id> posterior;  ///< the target's token of every row, to the first that is not the draft's
    std::vector<token_id> committed;  ///< posterior, cut at an end of the text
    index accepted = 0;               ///< leading drafts that the target says too, before that cut
    index target_rows = 0;            ///< positions in the target's cache after the round
    index draft_rows = 0;             ///< positions in the draft's cache after the round
};

/// What to write down of a run; null: nothing.
struct recordings {
    first_round* tensors = nullptr;
    std::vector<round_record>* rounds = nullptr;  ///< needs sample_and_match without penalties
    std::vector<scored_token>* scores = nullptr;  ///< one for each committed token
    index top = 0;                                ///< likeliest tokens of each score
};

/// Sees every round; returns false to cancel.
using round_watcher = std::function<bool(const round_view&)>;

class engine {
public:
    engine() = default;
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    virtual ~engine() = default;

    [[nodiscard]] virtual const target_shape& shape() const = 0;
    [[nodiscard]] virtual bool has_draft() const = 0;
    /// The block length that speculative() uses; 1 without a draft.
    [[nodiscard]] virtual index block_size() const = 0;
    virtual void set_threads(int threads) = 0;

    /// Of `record` only the scores are filled.
    virtual generation_result serial(std::span<const token_id> prompt, const generation_limits& limits,
                                     const round_watcher& watcher, const recordings& record) = 0;
    /// Needs a draft.
    virtual generation_result speculative(std::span<const token_id> prompt, const generation_limits& limits,
                                          const round_watcher& watcher, const recordings& record) = 0;
    /// Needs a draft and sample_and_match. See verify_lossless.
    virtual testing::lossless_report verify(std::span<const std::vector<token_id>> prompts,
                                            const generation_limits& limits, index block_size) = 0;
};

/// Loads the folders. Errors: config_error, io_error, backend_error, no_device.
[[nodiscard]] std::unique_ptr<engine> make_engine(const engine_options& options);

namespace detail {
[[nodiscard]] std::unique_ptr<engine> make_exact_engine(const engine_options& options);
[[nodiscard]] std::unique_ptr<engine> make_reference_engine(const engine_options& options);
[[nodiscard]] std::unique_ptr<engine> make_cuda_engine(const engine_options& options);
}  // namespace detail

}  // namespace examples
DFLASH_END_NAMESPACE
