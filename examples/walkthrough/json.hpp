// A lesson as JSON, for pages and pictures that are drawn from it.
#pragma once

#include <string>

#include "walkthrough/lesson.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// The whole lesson. Numbers are written with the fewest digits that give the float back; what is not finite is null.
///
/// { "format": "dflash-lesson 1", "cast", "mistake" (null: none), "on_paper", "setting": [[name, value]],
///   "words": [...], "confession": [...], "prompt": [ids],
///   "steps":  [{ "number", "title", "formulas": [...], "remarks": [...],
///                "kv_rows": [{ "position", "context", "what" }],
///                "sights":  [{ "query", "keys": [bools], "left_only": [bools] }],
///                "tables":  [{ "name", "shape", "rows": [labels], "columns": [labels], "boundary", "values": [...] }],
///                "expects": [{ "id", "sentence", "held" }] }],
///   "ledger": [{ "round", "drafts", "posterior", "accepted", "committed": [ids], "total", "anchor", "start",
///                "target_rows", "draft_rows", "fresh_rows" }],
///   "stopped" (null: no) }
[[nodiscard]] std::string to_json(const lesson& notes);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
