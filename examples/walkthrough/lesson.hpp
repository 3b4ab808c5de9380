// A lesson: everything the walkthrough shows, as data. The steps fill it; the page of text, the JSON file and every
// other picture are drawn from it, so that no number exists twice.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// Strings and numbers as one string.
template <class... Parts>
[[nodiscard]] std::string joined(const Parts&... parts) {
    return dflash::detail::text(parts...);
}

/// A tensor with its name. Axes before the last two are drawn as blocks (one for each head).
struct table {
    std::string name;
    std::vector<index> shape;
    std::vector<std::string> rows;     ///< labels of the last axis but one
    std::vector<std::string> columns;  ///< labels of the last axis, or none
    std::vector<float> values;         ///< row-major
    index boundary = 0;                ///< the first so many of the keys are context; 0: no such axis
    bool decimals = false;             ///< numbers that are no fractions in any cast
};

/// One row of a draft layer's K and V.
struct kv_row {
    index position = 0;
    bool context = false;  ///< made of C, else of the normed block
    std::string what;
};

/// Whom one query sees: here, and where every position only looks left (EAGLE).
struct sight {
    std::string query;
    std::vector<bool> keys;       ///< context, then block
    std::vector<bool> left_only;  ///< block alone
};

/// One sentence of the lesson, and whether it came true.
struct expectation {
    std::string id;
    std::string sentence;
    bool held = false;
};

/// One of the seven steps.
struct step {
    int number = 0;
    std::string title;
    std::vector<std::string> formulas;
    std::vector<table> tables;
    std::vector<kv_row> kv_rows;
    std::vector<std::string> remarks;
    std::vector<sight> sights;
    std::vector<expectation> expects;
};

/// The account after prefill (round 0) or after a round.
struct ledger_row {
    index round = 0;
    std::vector<token_id> drafts;
    std::vector<token_id> posterior;  ///< the target's best token of each verify row
    index accepted = 0;
    std::vector<token_id> committed;  ///< tokens this round committed
    index total = 0;                  ///< tokens committed so far, prompt included
    token_id anchor = -1;             ///< the newest of them
    index start = 0;                  ///< its position: where the next block begins
    index target_rows = 0;            ///< positions in the target's cache
    index draft_rows = 0;             ///< positions in the draft's cache
    index fresh_rows = 0;             ///< feature rows this round handed to the draft
};

struct lesson {
    std::string cast;
    std::string mistake;  ///< empty: none
    std::vector<std::pair<std::string, std::string>> setting;
    std::vector<std::string> words;       ///< the vocabulary
    std::vector<std::string> confession;  ///< paragraphs: which weights were chosen so that the story happens
    std::vector<token_id> prompt;
    std::vector<step> steps;
    std::vector<ledger_row> ledger;
    std::string stopped;  ///< why the rounds ended early, with a mistake; else empty

    /// "?" for what is no word.
    [[nodiscard]] std::string word(token_id id) const {
        return id < 0 || id >= static_cast<token_id>(words.size()) ? "?" : words[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] std::vector<std::string> words_of(std::span<const token_id> ids) const {
        std::vector<std::string> out;
        for (const token_id id : ids) {
            out.push_back(word(id));
        }
        return out;
    }
    [[nodiscard]] bool held() const {
        return std::all_of(steps.begin(), steps.end(), [](const step& s) {
            return std::all_of(s.expects.begin(), s.expects.end(), [](const expectation& e) { return e.held; });
        });
    }
    [[nodiscard]] const table& find(std::string_view name) const {
        for (const step& s : steps) {
            for (const table& t : s.tables) {
                if (t.name == name) {
                    return t;
                }
            }
        }
        raise<config_error>("lesson: has no table \"", name, "\"");
    }
};

/// Writes one step.
class page {
public:
    page(lesson& notes, int number, std::string title, std::vector<std::string> formulas) : notes_(&notes) {
        notes.steps.push_back({number, std::move(title), std::move(formulas), {}, {}, {}, {}, {}});
    }

    /// A matrix as it is.
    void show(std::string name, matrix_view<const float> values, std::vector<std::string> rows,
              std::vector<std::string> columns = {}, bool decimals = false) {
        table t{.name = std::move(name),
                .shape = {values.rows(), values.cols()},
                .rows = std::move(rows),
                .columns = std::move(columns),
                .values = {},
                .boundary = 0,
                .decimals = decimals};
        for (index r = 0; r < values.rows(); ++r) {
            t.values.insert(t.values.end(), values.row(r).begin(), values.row(r).end());
        }
        here().tables.push_back(std::move(t));
    }
    void show(table whole) { here().tables.push_back(std::move(whole)); }
    void show(kv_row one) { here().kv_rows.push_back(std::move(one)); }
    void show(sight one) { here().sights.push_back(std::move(one)); }

    template <class... Parts>
    void remark(const Parts&... parts) {
        here().remarks.push_back(joined(parts...));
    }

    /// States the lesson in words; a program whose sentences are not all true fails.
    template <class... Parts>
    void expect(std::string id, bool held, const Parts&... sentence) {
        here().expects.push_back({std::move(id), joined(sentence...), held});
    }

private:
    [[nodiscard]] step& here() { return notes_->steps.back(); }

    lesson* notes_;
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
