#include "walkthrough/text.hpp"

#include <cmath>
#include <cstdio>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

constexpr std::size_t width = 100;
constexpr index longest_row = 16;  // longer ones are shown by their ends

std::string left(std::string text, std::size_t columns) {
    text.resize((std::max)(columns, text.size()), ' ');
    return text;
}

std::string right(const std::string& text, std::size_t columns) {
    return text.size() >= columns ? text : std::string(columns - text.size(), ' ') + text;
}

std::string shape_text(const std::vector<index>& shape) {
    std::string out = "[";
    for (const index n : shape) {
        out += joined(out.size() > 1 ? ", " : "", n);
    }
    return out + "]";
}

/// One block of a table: rows x columns from `offset` on, cut into parts that fit the page.
std::string block_text(const table& t, index offset, bool on_paper) {
    const index cols = t.shape.back();
    const index rows = t.shape[t.shape.size() - 2];
    const std::vector<index> columns = shown_columns(cols);
    const auto cell = [&](index r, index c) {
        return c < 0 ? std::string("...")
                     : number(t.values[static_cast<std::size_t>(offset + r * cols + c)], on_paper && !t.decimals);
    };
    std::size_t label = 8;
    for (const std::string& name : t.rows) {
        label = (std::max)(label, name.size());
    }
    std::size_t cell_width = 3;
    for (const index c : columns) {
        for (index r = 0; r < rows; ++r) {
            cell_width = (std::max)(cell_width, cell(r, c).size());
        }
        if (c >= 0 && !t.columns.empty()) {
            cell_width = (std::max)(cell_width, t.columns[static_cast<std::size_t>(c)].size());
        }
    }
    const std::size_t fit = (width - 5 - label) / (cell_width + 1);
    std::string out;
    for (std::size_t first = 0; first < columns.size(); first += fit) {
        const std::size_t last = (std::min)(columns.size(), first + fit);
        if (!t.columns.empty()) {
            out += std::string(5 + label, ' ');
            for (std::size_t i = first; i < last; ++i) {
                out +=
                    ' ' + right(columns[i] < 0 ? "..." : t.columns[static_cast<std::size_t>(columns[i])], cell_width);
            }
            out += '\n';
        }
        for (index r = 0; r < rows; ++r) {
            out += "     " + left(t.rows.empty() ? "" : t.rows[static_cast<std::size_t>(r)], label);
            for (std::size_t i = first; i < last; ++i) {
                out += ' ' + right(cell(r, columns[i]), cell_width);
            }
            out += '\n';
        }
    }
    return out;
}

std::string table_text(const table& t, bool on_paper) {
    index blocks = 1;
    for (std::size_t axis = 0; axis + 2 < t.shape.size(); ++axis) {
        blocks *= t.shape[axis];
    }
    const index shown = on_paper ? blocks : 1;
    const index size = t.shape.back() * t.shape[t.shape.size() - 2];
    std::string out;
    for (index b = 0; b < shown; ++b) {
        const std::string which =
            t.shape.size() < 3 ? "" : joined("   head ", b, shown < blocks ? joined(" of ", blocks) : "");
        out += joined("   ", t.name, "  ", shape_text(t.shape), which, "\n");
        out += block_text(t, b * size, on_paper);
    }
    return out;
}

std::string kv_text(const std::vector<kv_row>& rows) {
    std::string out = rows.empty() ? "" : "   Row of K, V  position  made of   what it is\n";
    for (const kv_row& row : rows) {
        out += left(joined("     ", row.position), 16) + left(joined(row.position), 10) +
               left(row.context ? "C" : "norm(H)", 10) + row.what + '\n';
    }
    return out;
}

/// One row of a picture, a bar before the key `boundary`.
std::string sight_text(const std::string& query, const std::vector<bool>& keys, std::size_t boundary) {
    std::string line = left(joined("   ", query), 11);
    for (std::size_t k = 0; k < keys.size(); ++k) {
        line += k == boundary && k > 0 ? "|  " : "";
        line += keys[k] ? "o  " : ".  ";
    }
    return line;
}

std::string sights_text(const std::vector<sight>& rows) {
    std::string out =
        rows.empty()
            ? ""
            : "   Who sees whom (o), context left of the bar:       left to right only (EAGLE), without context:\n";
    for (const sight& row : rows) {
        out += "   " + left(sight_text(row.query, row.keys, row.keys.size() - row.left_only.size()), 50) +
               sight_text(row.query, row.left_only, 0) + '\n';
    }
    return out;
}

std::string without_trailing_blanks(const std::string& text) {
    std::string out;
    for (const char c : text) {
        while (c == '\n' && !out.empty() && out.back() == ' ') {
            out.pop_back();
        }
        out += c;
    }
    return out;
}

std::string listed(const lesson& notes, std::span<const token_id> tokens) {
    std::string out;
    for (const token_id token : tokens) {
        out += joined(out.empty() ? "" : " ", notes.word(token));
    }
    return out.empty() ? "-" : out;
}

}  // namespace

std::vector<index> shown_columns(index count) {
    std::vector<index> out;
    for (index c = 0; c < count; ++c) {
        if (count <= longest_row || c < 5 || c >= count - 2) {
            out.push_back(c);
        } else if (c == 5) {
            out.push_back(-1);
        }
    }
    return out;
}

std::optional<std::pair<index, index>> as_fraction(float x, index most) {
    const auto exact = static_cast<double>(x);
    const double near = 4e-7 * std::fmax(1.0, std::fabs(exact));
    for (index q = 1; q <= most && std::isfinite(x); ++q) {
        const double p = std::round(exact * static_cast<double>(q));
        if (std::fabs(p / static_cast<double>(q) - exact) < near) {
            return std::pair(static_cast<index>(p), q);
        }
    }
    return std::nullopt;
}

std::string number(float x, bool on_paper, int decimals) {
    if (const auto fraction = on_paper ? as_fraction(x, 800) : std::nullopt) {
        return fraction->second == 1 ? joined(fraction->first) : joined(fraction->first, "/", fraction->second);
    }
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", decimals, static_cast<double>(x));
    const std::string out = text;
    return out.find_first_not_of("-0.") == std::string::npos && out.front() == '-' ? out.substr(1) : out;
}

std::string wrapped(const std::string& first, const std::string& sentence) {
    std::string out;
    std::string line = first;
    const std::string indent(first.size(), ' ');
    std::size_t at = 0;
    while (at < sentence.size()) {
        const std::size_t blank = (std::min)(sentence.find(' ', at), sentence.size());
        const std::string piece = sentence.substr(at, blank - at);
        if (line.size() + 1 + piece.size() > width && line.size() > indent.size()) {
            out += line + '\n';
            line = indent;
        }
        line += (line.size() > indent.size() ? " " : "") + piece;
        at = blank + 1;
    }
    return out + line + '\n';
}

std::string to_text(const step& one, bool on_paper) {
    const std::string heading = joined("== Step ", one.number, "  ", one.title, " ");
    std::string out = heading + std::string(width - (std::min)(width - 1, heading.size()), '=') + '\n';
    for (const std::string& formula : one.formulas) {
        out += "   " + formula + '\n';
    }
    out += '\n';
    for (const table& t : one.tables) {
        out += table_text(t, on_paper);
    }
    out += kv_text(one.kv_rows);
    for (const std::string& remark : one.remarks) {
        out += "   " + remark + '\n';
    }
    out += sights_text(one.sights);
    for (const expectation& e : one.expects) {
        out += wrapped(e.held ? "   ok    " : "   FALSE ", e.sentence);
    }
    return without_trailing_blanks(out + '\n');
}

std::string ledger_text(const lesson& notes) {
    std::string out =
        "   round    drafts           the target says          accepted  commits              committed\n"
        "            start  anchor    target rows  draft rows  fresh feature rows\n";
    for (const ledger_row& r : notes.ledger) {
        out += left(joined("   ", r.round == 0 ? "prefill" : joined(r.round)), 12) + left(listed(notes, r.drafts), 17) +
               left(listed(notes, r.posterior), 25) + left(r.round == 0 ? "-" : joined(r.accepted), 10) +
               left(listed(notes, r.committed), 21) + joined(r.total) + '\n';
        out += std::string(12, ' ') + left(joined(r.start), 7) + left(notes.word(r.anchor), 10) +
               left(joined(r.target_rows), 13) + left(joined(r.draft_rows), 12) + joined(r.fresh_rows) + '\n';
    }
    if (!notes.stopped.empty()) {
        out += wrapped("   stopped: ", notes.stopped);
    }
    return without_trailing_blanks(out);
}

std::string to_text(const lesson& notes) {
    std::string out =
        joined("One round of DFlash, cast \"", notes.cast, "\". Every number comes out of the library.\n\n");
    for (const auto& [name, value] : notes.setting) {
        out += "   " + left(name, 16) + value + '\n';
    }
    out += '\n';
    for (const std::string& line : notes.confession) {
        out += wrapped("   ", line);
    }
    out += '\n';
    for (const step& one : notes.steps) {
        out += to_text(one, notes.cast == "pencil");
    }
    out += "== The ledger " + std::string(width - 14, '=') + '\n' + ledger_text(notes) + '\n';
    std::vector<token_id> all = notes.prompt;
    for (const ledger_row& r : notes.ledger) {
        all.insert(all.end(), r.committed.begin(), r.committed.end());
    }
    out += "   " + listed(notes, all) + '\n';
    return out;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
