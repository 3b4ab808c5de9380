// The data of a lesson's page: the lesson's JSON, in which each table has, instead of its values,
//   "shown"    the columns that are shown, -1 for those left out
//   "blocks"   [block][row][shown column]: the number as the text output writes it
//   "best"     [block][row]: the column of the largest number, where columns are words
//   "values"   kept where a picture needs them: attention weights, cos, sin
//   "changed"  with a mistake { "summary", "cells": as blocks, true where the number differs }; none without a change
#include <algorithm>

#include <dflash/numerics/argmax.hpp>
#include <dflash/numerics/basic.hpp>

#include "walkthrough/html.hpp"
#include "walkthrough/json.hpp"
#include "walkthrough/text.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

using nlohmann::ordered_json;

/// Sizes of a table: axes before the last two are blocks.
struct extent {
    explicit extent(const table& t)
        : cols(t.shape.back()),
          rows(t.shape[t.shape.size() - 2]),
          blocks(size_of(std::span(t.values)) / (cols * rows)) {}

    index cols;
    index rows;
    index blocks;
};

/// [block][row] of what `make` returns for the row.
template <class Make>
ordered_json of_each_row(const table& t, Make make) {
    const extent size(t);
    ordered_json out = ordered_json::array();
    for (index b = 0; b < size.blocks; ++b) {
        ordered_json block = ordered_json::array();
        for (index r = 0; r < size.rows; ++r) {
            const auto first = static_cast<std::size_t>((b * size.rows + r) * size.cols);
            block.push_back(make(first));
        }
        out.push_back(std::move(block));
    }
    return out;
}

/// [shown column] of what `make` returns for the place of the number; `gap` for those left out.
template <class Make>
ordered_json of_each_number(const table& t, const ordered_json& gap, Make make) {
    const std::vector<index> shown = shown_columns(t.shape.back());
    return of_each_row(t, [&](std::size_t first) {
        ordered_json row = ordered_json::array();
        for (const index c : shown) {
            row.push_back(c < 0 ? gap : ordered_json(make(first + static_cast<std::size_t>(c))));
        }
        return row;
    });
}

bool is_drawn(const table& t) {
    return t.name == "cos" || t.name == "sin" || t.name.starts_with("A, ");
}

ordered_json changes(const table& wrong, const table& right) {
    ordered_json out = nullptr;
    if (right.shape != wrong.shape) {
        out["summary"] = " has another shape in the right run";
        return out;
    }
    const auto differs = [&](std::size_t i) {
        return numerics::canonical_bits(right.values[i]) != numerics::canonical_bits(wrong.values[i]);
    };
    index count = 0;
    for (std::size_t i = 0; i < wrong.values.size(); ++i) {
        count += differs(i) ? 1 : 0;
    }
    if (count > 0) {
        out["summary"] = joined(" ", count, " of ", wrong.values.size(), " numbers differ from the right run");
        out["cells"] = of_each_number(wrong, false, differs);
    }
    return out;
}

void draw_table(ordered_json& out, const table& t, bool on_paper, const lesson* right) {
    out["shown"] = shown_columns(t.shape.back());
    out["blocks"] =
        of_each_number(t, "...", [&](std::size_t i) { return number(t.values[i], on_paper && !t.decimals); });
    if (!t.columns.empty() && !is_drawn(t)) {
        const index cols = t.shape.back();
        out["best"] =
            of_each_row(t, [&](std::size_t first) { return numerics::argmax(t.values.data() + first, cols); });
    }
    if (!is_drawn(t)) {
        out.erase("values");
    }
    if (right != nullptr) {
        if (ordered_json changed = changes(t, right->find(t.name)); !changed.is_null()) {
            out["changed"] = std::move(changed);
        }
    }
}

}  // namespace

std::string to_html(const lesson& notes, const mistake_entry* made, const lesson* right) {
    ordered_json data = ordered_json::parse(to_json(notes));
    for (std::size_t s = 0; s < notes.steps.size(); ++s) {
        const std::vector<table>& tables = notes.steps[s].tables;
        for (std::size_t t = 0; t < tables.size(); ++t) {
            draw_table(data["steps"][s]["tables"][t], tables[t], notes.cast == "pencil", right);
        }
    }
    if (made != nullptr) {
        data["mistake"] = {{"name", made->name}, {"what", made->what}};
    }
    return page_around(joined("One round of DFlash, cast ", notes.cast), data);
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
