// The mistakes one can make with this method, each with the sentences of the lesson it breaks. A sentence that no
// mistake breaks would prove nothing: the tests make every mistake in both casts.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <dflash/vocabulary.hpp>

#include "walkthrough/lesson.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

enum class mistake : std::uint8_t {
    none,
    tap_off_by_one,
    last_tap_before_norm,
    logits_of_the_first_row,
    no_hidden_norm,
    no_mask,
    block_without_input_norm,
    context_through_input_norm,
    query_positions_from_0,
    causal_block,
    no_injection,
    no_scale,
    keep_slot_0,
    head_row_off_by_one,
    two_sided_verify,
    wrong_crop,
    features_of_the_whole_block,
    keep_block_rows,
};

struct mistake_entry {
    mistake id = mistake::none;
    std::string_view name;                 ///< as on the command line
    std::string_view what;                 ///< what is done wrong
    std::vector<std::string_view> breaks;  ///< ids of sentences that are false then, in both casts
};

/// All of them, in the order of the steps.
[[nodiscard]] std::span<const mistake_entry> all_mistakes();

/// By name. Errors: config_error that lists the names.
[[nodiscard]] const mistake_entry& find_mistake(std::string_view name);

/// The ids of the sentences that did not come true.
[[nodiscard]] std::vector<std::string> broken_sentences(const lesson& notes);

/// Two lessons side by side: which numbers change, which sentences are false with the mistake.
struct comparison {
    std::string text;
    index changed_tables = 0;
    std::vector<std::string> missing;  ///< sentences that should have been broken and were not

    [[nodiscard]] bool seen() const { return changed_tables > 0 && missing.empty(); }
};
[[nodiscard]] comparison compare(const lesson& right, const lesson& wrong, const mistake_entry& made);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
