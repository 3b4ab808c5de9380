// Policies that the command line chooses, as one type each, so that a decoder is compiled once for all choices.
//
// Programs that embed the library name the types they want instead.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <dflash/decode/adaptive_block.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/sampling/penalties.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

enum class acceptance_kind : std::uint8_t { match, rejection, typical };
/// The block length that was asked for, always or at most.
class chosen_block {
public:
    /// Errors: config_error.
    chosen_block(index block, bool adaptive) : fixed_(block) {
        if (adaptive) {
            adaptive_.emplace(block);
        }
    }

    [[nodiscard]] index max_block() const noexcept { return fixed_.max_block(); }
    [[nodiscard]] index next(index limit) { return adaptive_ ? adaptive_->next(limit) : fixed_.next(limit); }
    void record(const round_report& round) {
        if (adaptive_) {
            adaptive_->record(round);
        }
    }

private:
    fixed_block fixed_;
    std::optional<adaptive_block> adaptive_;
};

enum class draft_kind : std::uint8_t { argmax, coupled, sampled };

/// Everything about chance. Temperature 0 is greedy.
struct sampling_choice {
    sampling_options law{.temperature = 0};
    penalty_options penalties;
    noise_key noise;
    acceptance_kind acceptance = acceptance_kind::match;
    draft_kind drafts = draft_kind::argmax;

    [[nodiscard]] bool has_penalties() const noexcept {
        return penalties.repetition != 1 || penalties.frequency != 0 || penalties.presence != 0;
    }
};

/// A sequence_sampler and law_sampler: categorical, with penalties if there are any.
class chosen_sampler {
public:
    /// Errors: config_error.
    explicit chosen_sampler(const sampling_choice& choice) : base_(choice.law) {
        const penalties checked(choice.penalties);
        if (choice.has_penalties()) {
            penalties_ = checked;
        }
    }

    void reseed(noise_key key) noexcept { base_.reseed(key); }
    [[nodiscard]] token_id pick(std::span<const float> logits, index position) const {
        return base_.pick(changed(logits), position);
    }
    [[nodiscard]] bool scores(std::span<const float> logits, std::span<float> out) const {
        return base_.scores(changed(logits), out);
    }
    [[nodiscard]] chosen_sampler fork() const { return *this; }
    void start() {
        if (penalties_) {
            penalties_->start();
        }
    }
    void advance(token_id token) {
        if (penalties_) {
            penalties_->advance(token);
        }
    }

private:
    std::span<const float> changed(std::span<const float> logits) const {
        if (!penalties_) {
            return logits;
        }
        row_.assign(logits.begin(), logits.end());
        penalties_->apply(row_);
        return row_;
    }

    categorical<> base_;
    std::optional<penalties> penalties_;
    mutable std::vector<float> row_;
};

/// A draft_choice.
class chosen_drafts {
public:
    /// Errors: config_error.
    explicit chosen_drafts(const sampling_choice& choice) {
        if (choice.drafts == draft_kind::coupled) {
            choice_.emplace<coupled_drafts<>>(choice.law);
        } else if (choice.drafts == draft_kind::sampled) {
            choice_.emplace<sampled_drafts<>>(choice.law);
        }
    }

    void choose(matrix_view<const float> logits, index position, noise_key key, draft_output<>& out) {
        std::visit([&](auto& choice) { choice.choose(logits, position, key, out); }, choice_);
    }

private:
    std::variant<argmax_drafts, coupled_drafts<>, sampled_drafts<>> choice_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
