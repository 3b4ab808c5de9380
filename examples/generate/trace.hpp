// --trace: the rounds of a run as a file, for dflash-walkthrough --from and whoever else wants to look at them.
//
// Format "dflash-trace 1", one JSON object:
//
//   "format"      "dflash-trace 1"
//   "target"      name of the folder; where that is just "target", with its parent's: "worked-problems/target"
//   "draft"       the same for the draft
//   "block_size"  rows of a full block, the anchor included
//   "prompt"      [ids]
//   "rounds"      one object for prefill, which has no drafts and commits the first token, then one for each round:
//       "start"        position of the block's first row, which is the anchor's; of prefill: 0
//       "anchor"       id of the newest token before the round; of prefill: null
//       "drafts"       [ids] proposed for positions start + 1 and on
//       "posterior"    [ids] the target's own tokens for the same positions, up to and including the first that is not
//                      the draft's (the rows after it saw a draft that does not stand); accepted + 1 of them
//       "accepted"     leading drafts that equal the posterior
//       "committed"    [ids] the posterior, cut at the first stop token
//       "target_rows"  positions in the target's cache after the round
//       "draft_rows"   positions in the draft's cache after the round
//       "fresh_rows"   how many of them are new, made of features that this round handed over
//   "pieces"      { "<id>": piece }, one for each token above; empty without a tokenizer. A piece is
//       { "text": "..." }       what the token decodes to, "special": true beside it if the tokenizer marks it so
//       { "bytes": "e282" }     the same in hexadecimal, where it is no whole number of characters in UTF-8
//       { }                     an id that the tokenizer does not know
//   "statistics"  "tokens", "rounds" (without prefill), "mean_acceptance_length", "slot_drafted" and "slot_accepted"
//                 ([i]: rounds that had a draft in slot i + 1, and that committed it), "finish_reason" (stop, length,
//                 context), "seconds" { "prefill", "draft", "verify", "sample", "total" }
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/engine.hpp"
#include "common/text.hpp"
#include "common/write_file.hpp"
#include "generate/json_output.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// "/some/where/pair/target" -> "pair/target", "/some/where/Qwen3-4B/" -> "Qwen3-4B".
[[nodiscard]] inline std::string model_name(const std::string& folder) {
    std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
    if (!path.has_filename()) {
        path = path.parent_path();
    }
    const std::string name = path.filename().string();
    const std::string parent = path.parent_path().filename().string();
    return (name == "target" || name == "draft") && !parent.empty() ? parent + '/' + name : name;
}

/// What one token decodes to.
[[nodiscard]] inline nlohmann::ordered_json piece_of(const tokenizer& words, token_id token) {
    nlohmann::ordered_json piece = nlohmann::ordered_json::object();
    std::string_view bytes;
    try {
        bytes = words.token_bytes(token);
    } catch (const config_error&) {
        return piece;  // vocabularies are padded with ids that no token has
    }
    if (valid_utf8_prefix(bytes) == bytes.size()) {
        piece["text"] = bytes;
    } else {
        constexpr std::string_view digits = "0123456789abcdef";
        std::string hex;
        for (const char c : bytes) {
            hex += digits[static_cast<unsigned char>(c) / 16];
            hex += digits[static_cast<unsigned char>(c) % 16];
        }
        piece["bytes"] = hex;
    }
    if (words.is_special(token)) {
        piece["special"] = true;
    }
    return piece;
}

[[nodiscard]] inline nlohmann::ordered_json rounds_array(const std::vector<token_id>& prompt,
                                                         const std::vector<round_record>& rounds) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    index committed = size_of(std::span(prompt));
    for (std::size_t r = 0; r < rounds.size(); ++r) {
        const round_record& round = rounds[r];
        nlohmann::ordered_json one;
        one["start"] = r == 0 ? index{0} : committed - 1;
        one["anchor"] = nullptr;
        if (r > 0) {
            one["anchor"] = rounds[r - 1].committed.back();
        }
        one["drafts"] = round.drafts;
        one["posterior"] = round.posterior;
        one["accepted"] = round.accepted;
        one["committed"] = round.committed;
        one["target_rows"] = round.target_rows;
        one["draft_rows"] = round.draft_rows;
        one["fresh_rows"] = round.draft_rows - (r == 0 ? 0 : rounds[r - 1].draft_rows);
        committed += size_of(std::span(round.committed));
        out.push_back(std::move(one));
    }
    return out;
}

[[nodiscard]] inline nlohmann::ordered_json pieces_object(const std::vector<token_id>& prompt,
                                                          const std::vector<round_record>& rounds,
                                                          const tokenizer* words) {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    if (words == nullptr) {
        return out;
    }
    std::set<token_id> seen(prompt.begin(), prompt.end());
    for (const round_record& round : rounds) {
        seen.insert(round.drafts.begin(), round.drafts.end());
        seen.insert(round.posterior.begin(), round.posterior.end());
    }
    for (const token_id token : seen) {
        out[std::to_string(token)] = piece_of(*words, token);
    }
    return out;
}

/// Writes a run to a file. `words` may be null. Errors: io_error.
inline void write_trace(const std::string& path, const engine_options& models, index block_size,
                        const std::vector<token_id>& prompt, const std::vector<round_record>& rounds,
                        const timed_result& run, const tokenizer* words) {
    const decode_stats& stats = run.result.stats;
    nlohmann::ordered_json object;
    object["format"] = "dflash-trace 1";
    object["target"] = model_name(models.target);
    object["draft"] = model_name(models.draft);
    object["block_size"] = block_size;
    object["prompt"] = prompt;
    object["rounds"] = rounds_array(prompt, rounds);
    object["pieces"] = pieces_object(prompt, rounds, words);
    object["statistics"] = {{"tokens", stats.tokens},
                            {"rounds", stats.rounds},
                            {"mean_acceptance_length", stats.mean_acceptance_length()},
                            {"slot_drafted", stats.slot_drafted},
                            {"slot_accepted", stats.slot_accepted},
                            {"finish_reason", std::string(name_of(run.result.reason))},
                            {"seconds", seconds_object(run)}};
    write_file(path, object.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace examples
DFLASH_END_NAMESPACE
