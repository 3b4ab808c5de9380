#include "walkthrough/mistakes.hpp"

#include <array>

#include <dflash/numerics/basic.hpp>

#include "walkthrough/text.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

const std::vector<mistake_entry>& entries() {
    static const std::vector<mistake_entry> all = {
        {mistake::tap_off_by_one,
         "tap-off-by-one",
         "Taps are one layer too low: the ids are read as places in hidden_states, which starts with the embedding.",
         {"taps-count-from-0"}},
        {mistake::last_tap_before_norm,
         "last-tap-before-norm",
         "The last layer is tapped before the final norm.",
         {"last-tap-is-normed"}},
        {mistake::logits_of_the_first_row,
         "logits-of-the-first-row",
         "The first token is read off the first row of the prompt instead of the last.",
         {"first-token"}},
        {mistake::no_hidden_norm,
         "no-hidden-norm",
         "The projected features are used as they are, without hidden_norm.",
         {"context-is-normed", "context-is-fc-then-norm"}},
        {mistake::no_mask,
         "no-mask",
         "The slots after the anchor are filled with the anchor instead of MASK.",
         {"slots-hold-masks"}},
        {mistake::block_without_input_norm,
         "block-without-input-norm",
         "The block skips the layer's input norm, as the context does.",
         {"block-rows-share-the-weights"}},
        {mistake::context_through_input_norm,
         "context-through-input-norm",
         "C passes the draft layer's input norm before W_K and W_V, as the block does.",
         {"context-rows-skip-the-input-norm"}},
        {mistake::query_positions_from_0,
         "query-positions-from-0",
         "Queries are turned to positions 0 1 2 3; keys stand where they should.",
         {"queries-stand-at-3-to-6", "only-the-distance-counts"}},
        {mistake::causal_block,
         "causal-block",
         "The draft looks to the left only, as a language model does.",
         {"every-slot-sees-all"}},
        {mistake::no_injection,
         "no-injection",
         "The draft's layers see the block alone: four keys, none from the target.",
         {"every-slot-sees-all", "the-context-is-heard"}},
        {mistake::no_scale,
         "no-scale",
         "Scores are not divided by the square root of the head's width.",
         {"scores-are-scaled"}},
        {mistake::keep_slot_0,
         "keep-slot-0",
         "The head reads slots 0 1 2: the output of the anchor's slot counts as the first draft.",
         {"slot-0-is-dropped", "drafts-of-the-story"}},
        {mistake::head_row_off_by_one,
         "head-row-off-by-one",
         "A draft is compared with what its own row says, instead of the row before it.",
         {"two-are-accepted", "the-next-block-starts-at-6", "lossless"}},
        {mistake::two_sided_verify,
         "two-sided-verify",
         "The target's rows see the drafts to their right.",
         {"one-pass-equals-four", "nothing-comes-from-the-right"}},
        {mistake::wrong_crop,
         "wrong-crop",
         "The target's cache is cropped to 0 .. start: one row of a rejected draft stays.",
         {"target-cache-is-0-to-5", "the-crop-forgets", "the-loop-agrees", "cache-is-committed-minus-one"}},
        {mistake::features_of_the_whole_block,
         "features-of-the-whole-block",
         "The features of all four rows go to the draft, rejected ones as well.",
         {"draft-cache-is-0-to-5", "cache-is-committed-minus-one", "fresh-rows-are-the-committed"}},
        {mistake::keep_block_rows,
         "keep-block-rows",
         "The draft keeps the K and V rows of its own block instead of making them from the target's features.",
         {"kept-rows-come-from-the-target"}},
    };
    return all;
}

/// "head 0, 4 MASK, 2 sat": the place of a number in its table.
std::string place(const table& t, std::size_t at) {
    const auto cols = static_cast<std::size_t>(t.shape.back());
    const auto rows = static_cast<std::size_t>(t.shape[t.shape.size() - 2]);
    const std::size_t r = at / cols % rows;
    const std::size_t c = at % cols;
    std::string out = t.shape.size() > 2 ? joined("head ", at / cols / rows, ", ") : "";
    out += t.rows.empty() ? joined("row ", r) : t.rows[r];
    return out + ", " + (t.columns.empty() ? joined("column ", c) : t.columns[c]);
}

std::string table_difference(const table& right, const table& wrong, bool on_paper) {
    if (right.shape != wrong.shape) {
        const auto shape = [](const table& t) {
            std::string out;
            for (const index n : t.shape) {
                out += joined(out.empty() ? "" : " x ", n);
            }
            return out;
        };
        return joined("   ", right.name, ": ", shape(right), " -> ", shape(wrong), "\n");
    }
    constexpr std::size_t most = 3;
    std::size_t changed = 0;
    std::string examples;
    for (std::size_t i = 0; i < right.values.size(); ++i) {
        if (numerics::canonical_bits(right.values[i]) == numerics::canonical_bits(wrong.values[i])) {
            continue;
        }
        const std::string before = number(right.values[i], on_paper && !right.decimals);
        const std::string after = number(wrong.values[i], on_paper && !right.decimals);
        if (++changed <= most) {
            examples += joined("      ", place(right, i), ":  ", before, " -> ", after,
                               before == after ? "  (further decimals)" : "", "\n");
        }
    }
    return changed == 0 ? ""
                        : joined("   ", right.name, ": ", changed, " of ", right.values.size(), " numbers\n", examples);
}

std::string ledger_difference(const lesson& right, const lesson& wrong) {
    const std::string before = ledger_text(right);
    const std::string after = ledger_text(wrong);
    return before == after ? "" : joined("   the ledger, right:\n", before, "   with the mistake:\n", after);
}

}  // namespace

std::span<const mistake_entry> all_mistakes() {
    return entries();
}

const mistake_entry& find_mistake(std::string_view name) {
    std::string names;
    for (const mistake_entry& entry : entries()) {
        if (entry.name == name) {
            return entry;
        }
        names += joined(names.empty() ? "" : ", ", entry.name);
    }
    raise<config_error>("--mistake: got \"", name, "\", needs all or one of ", names);
}

std::vector<std::string> broken_sentences(const lesson& notes) {
    std::vector<std::string> out;
    for (const step& s : notes.steps) {
        for (const expectation& e : s.expects) {
            if (!e.held) {
                out.push_back(e.id);
            }
        }
    }
    return out;
}

comparison compare(const lesson& right, const lesson& wrong, const mistake_entry& made) {
    comparison out;
    const bool on_paper = right.cast == "pencil";
    out.text = joined("Mistake \"", made.name, "\", cast \"", right.cast, "\".\n", wrapped("", std::string(made.what)),
                      "\nNumbers that change, right -> with the mistake:\n");
    for (std::size_t s = 0; s < right.steps.size(); ++s) {
        std::string changes;
        for (const table& t : right.steps[s].tables) {
            for (const table& other : wrong.steps[s].tables) {
                const std::string change = t.name == other.name ? table_difference(t, other, on_paper) : "";
                out.changed_tables += change.empty() ? 0 : 1;
                changes += change;
            }
        }
        out.text += changes.empty() ? "" : joined("Step ", right.steps[s].number, "\n", changes);
    }
    const std::string ledger = ledger_difference(right, wrong);
    out.changed_tables += ledger.empty() ? 0 : 1;
    out.text += ledger + "\nSentences that are false now:\n";
    for (const step& s : wrong.steps) {
        for (const expectation& e : s.expects) {
            out.text += e.held ? "" : wrapped("   ", joined("Step ", s.number, ", ", e.id, ": ", e.sentence));
        }
    }
    const std::vector<std::string> broken = broken_sentences(wrong);
    for (const std::string_view id : made.breaks) {
        if (std::find(broken.begin(), broken.end(), id) == broken.end()) {
            out.missing.emplace_back(id);
            out.text += joined("NOT SEEN: the mistake should have broken \"", id, "\"\n");
        }
    }
    return out;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
