#include "walkthrough/json.hpp"

#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

using nlohmann::ordered_json;

/// The double whose shortest text is the float's shortest text.
ordered_json number_of(float x) {
    if (!std::isfinite(x)) {
        return nullptr;
    }
    char text[64];
    const std::to_chars_result end = std::to_chars(text, text + sizeof text, x);
    double value = 0;
    std::from_chars(text, end.ptr, value);
    return value == 0 ? 0.0 : value;
}

ordered_json table_of(const table& t) {
    ordered_json values = ordered_json::array();
    for (const float x : t.values) {
        values.push_back(number_of(x));
    }
    ordered_json out;
    out["name"] = t.name;
    out["shape"] = t.shape;
    out["rows"] = t.rows;
    out["columns"] = t.columns;
    out["boundary"] = t.boundary;
    out["values"] = std::move(values);
    return out;
}

ordered_json step_of(const step& s) {
    ordered_json out;
    out["number"] = s.number;
    out["title"] = s.title;
    out["formulas"] = s.formulas;
    out["remarks"] = s.remarks;
    out["kv_rows"] = ordered_json::array();
    for (const kv_row& row : s.kv_rows) {
        ordered_json one;
        one["position"] = row.position;
        one["context"] = row.context;
        one["what"] = row.what;
        out["kv_rows"].push_back(std::move(one));
    }
    out["sights"] = ordered_json::array();
    for (const sight& row : s.sights) {
        ordered_json one;
        one["query"] = row.query;
        one["keys"] = row.keys;
        one["left_only"] = row.left_only;
        out["sights"].push_back(std::move(one));
    }
    out["tables"] = ordered_json::array();
    for (const table& t : s.tables) {
        out["tables"].push_back(table_of(t));
    }
    out["expects"] = ordered_json::array();
    for (const expectation& e : s.expects) {
        ordered_json one;
        one["id"] = e.id;
        one["sentence"] = e.sentence;
        one["held"] = e.held;
        out["expects"].push_back(std::move(one));
    }
    return out;
}

ordered_json round_of(const ledger_row& r) {
    ordered_json out;
    out["round"] = r.round;
    out["drafts"] = r.drafts;
    out["posterior"] = r.posterior;
    out["accepted"] = r.accepted;
    out["committed"] = r.committed;
    out["total"] = r.total;
    out["anchor"] = r.anchor;
    out["start"] = r.start;
    out["target_rows"] = r.target_rows;
    out["draft_rows"] = r.draft_rows;
    out["fresh_rows"] = r.fresh_rows;
    return out;
}

}  // namespace

std::string to_json(const lesson& notes) {
    ordered_json out;
    out["format"] = "dflash-lesson 1";
    out["cast"] = notes.cast;
    out["mistake"] = notes.mistake.empty() ? ordered_json(nullptr) : ordered_json(notes.mistake);
    out["on_paper"] = notes.cast == "pencil";
    out["setting"] = notes.setting;
    out["words"] = notes.words;
    out["confession"] = notes.confession;
    out["prompt"] = notes.prompt;
    out["steps"] = ordered_json::array();
    for (const step& s : notes.steps) {
        out["steps"].push_back(step_of(s));
    }
    out["ledger"] = ordered_json::array();
    for (const ledger_row& r : notes.ledger) {
        out["ledger"].push_back(round_of(r));
    }
    out["stopped"] = notes.stopped.empty() ? ordered_json(nullptr) : ordered_json(notes.stopped);
    return out.dump(1) + '\n';
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
