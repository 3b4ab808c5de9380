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

/// A token, its text where there is one, and ln of its probability.
[[nodiscard]] inline nlohmann::ordered_json score_object(const token_log_probability& score, const tokenizer* words) {
    nlohmann::ordered_json out{{"token", score.token}};
    if (words != nullptr) {
        out["text"] = token_text::all(*words, {&score.token, 1});
    }
    out["logprob"] = static_cast<double>(score.log_probability);
    return out;
}

/// One object, on one line. `words`, `both` and `scores` may be null.
[[nodiscard]] inline std::string json_text(const std::vector<token_id>& prompt, const timed_result& run,
                                           const tokenizer* words, const comparison* both,
                                           const std::vector<scored_token>* scores) {
    const generation_result& result = run.result;
    nlohmann::ordered_json object;
    object["tokens"] = result.tokens;
    if (words != nullptr) {
        object["text"] = token_text::all(*words, result.tokens);
    }
    object["prompt_tokens"] = prompt;
    object["acceptance_lengths"] = result.stats.acceptance_lengths;
    object["block_lengths"] = result.stats.block_lengths;
    object["mean_acceptance_length"] = result.stats.mean_acceptance_length();
    object["finish_reason"] = std::string(name_of(result.reason));
    object["seconds"] = seconds_object(run);
    if (scores != nullptr) {
        object["logprobs"] = nlohmann::ordered_json::array();
        for (const scored_token& score : *scores) {
            nlohmann::ordered_json one = score_object(score.chosen, words);
            one["top"] = nlohmann::ordered_json::array();
            for (const token_log_probability& other : score.top) {
                one["top"].push_back(score_object(other, words));
            }
            object["logprobs"].push_back(std::move(one));
        }
    }
    if (both != nullptr) {
        object["serial"] = {{"tokens", both->serial.result.tokens}, {"seconds", seconds_object(both->serial)}};
        object["speed_ratio"] = both->ratio();
        object["identical"] = both->identical;
    }
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace examples
DFLASH_END_NAMESPACE
