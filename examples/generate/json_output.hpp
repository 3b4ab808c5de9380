// What --json prints.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/text.hpp"
#include "generate/table.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

[[nodiscard]] inline nlohmann::ordered_json seconds_object(const timed_result& run) {
    const decode_stats& stats = run.result.stats;
    return {
        {"prefill", stats.prefill_seconds}, {"draft", stats.draft_seconds}, {"verify", stats.verify_seconds},
        {"sample", stats.sample_seconds},   {"total", run.seconds},
    };
}

/// One object, on one line. `words` and `both` may be null.
[[nodiscard]] inline std::string json_text(const std::vector<token_id>& prompt, const timed_result& run,
                                           const tokenizer* words, const comparison* both) {
    const generation_result& result = run.result;
    nlohmann::ordered_json object;
    object["tokens"] = result.tokens;
    if (words != nullptr) {
        object["text"] = token_text::all(*words, result.tokens);
    }
    object["prompt_tokens"] = prompt;
    object["acceptance_lengths"] = result.stats.acceptance_lengths;
    object["mean_acceptance_length"] = result.stats.mean_acceptance_length();
    object["finish_reason"] = std::string(name_of(result.reason));
    object["seconds"] = seconds_object(run);
    if (both != nullptr) {
        object["serial"] = {{"tokens", both->serial.result.tokens}, {"seconds", seconds_object(both->serial)}};
        object["speed_ratio"] = both->ratio();
        object["identical"] = both->identical;
    }
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace examples
DFLASH_END_NAMESPACE
