// The classroom: the pair on stage, and what one step leaves for the next.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/numerics/linear.hpp>
#include <dflash/numerics/rms_norm.hpp>

#include "walkthrough/lesson.hpp"
#include "walkthrough/players.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

struct classroom {
    /// Room for the story; nobody has said a word yet.
    classroom(std::shared_ptr<const cast> who, mistake wrong);

    std::shared_ptr<const cast> actors;
    story plot;
    desk seen;  // what went by
    target_player target;
    draft_player draft;
    target_cache target_rows;            // what the target remembers
    contiguous_cache<float> draft_rows;  // what the draft remembers
    lesson notes;

    // Step 1
    matrix raw;           // (3, k*d) features of the prompt
    token_id first = -1;  // the token after the prompt
    // Step 2
    matrix context;  // (3, d)
    // Step 3
    std::vector<token_id> block;  // anchor and masks, later anchor and drafts
    matrix embeddings;            // (4, d)
    // Step 4
    matrix hidden;  // (4, d), after the draft's final norm
    // Step 6
    matrix verify_logits;             // (4, v)
    matrix verify_raw;                // (4, k*d)
    std::vector<token_id> posterior;  // the target's best token of each row
    verdict outcome;

    [[nodiscard]] page open(int number, std::string title, std::vector<std::string> formulas) {
        return {notes, number, std::move(title), std::move(formulas)};
    }
    [[nodiscard]] std::string word(token_id id) const { return notes.word(id); }
    /// "3 on", "4 MASK", ...: labels of positions from `first` on.
    [[nodiscard]] std::vector<std::string> places(index from, std::span<const token_id> ids) const;
    /// Rows of all heads side by side, (m, h*e), as (h, m, e).
    [[nodiscard]] table by_head(std::string name, const matrix& rows, std::vector<std::string> labels) const;
};

/// One row through the scalar specification of a linear layer.
[[nodiscard]] std::vector<float> spec_linear(const tensor_view& weights, std::span<const float> row);
/// One row through the specification of RMSNorm.
[[nodiscard]] std::vector<float> spec_norm(const tensor_view& weights, float eps, std::span<const float> row);
/// Keys, then values, of all KV heads of one row at a position: rope(k_norm(W_K row)) and W_V row.
[[nodiscard]] std::vector<float> spec_keys_and_values(const cast& actors, index layer, std::span<const float> row,
                                                      index position);
/// Equal bits, NaN never.
[[nodiscard]] bool same(std::span<const float> a, std::span<const float> b);

// The seven steps, each in its own file.
void step_1_prefill(classroom& room);
void step_2_fuse_and_normalise(classroom& room);
void step_3_prepare_the_block(classroom& room);
void step_4_attend_with_injected_keys(classroom& room);
void step_5_draft(classroom& room);
void step_6_verify_and_accept(classroom& room);
void step_7_commit_and_go_on(classroom& room);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
