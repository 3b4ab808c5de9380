// The CPU's side of the comparison: it is compiled by the host compiler alone, and this header is all the device's side
// sees of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dflash/decode/limits.hpp>
#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>
#include <dflash/vocabulary.hpp>

namespace device_check {

/// A target and its draft as they are stored.
struct pair_views {
    dflash::target_shape target;
    dflash::target_weights target_tensors;
    dflash::draft_shape draft;
    dflash::draft_weights draft_tensors;
};

/// One generation. Temperature 0 is greedy.
struct run_request {
    std::vector<dflash::token_id> prompt;
    dflash::generation_limits limits;
    std::uint64_t seed = 0;
    float temperature = 0;
    bool coupled = false;  ///< drafts drawn with the target's noise, not the best tokens
};

struct run_result {
    std::vector<dflash::token_id> tokens;
    std::vector<dflash::index> acceptance_lengths;
};

/// Reads two folders. Errors: io_error, config_error.
[[nodiscard]] pair_views read_pair(const std::string& target, const std::string& draft);

/// Speculative decoding on the CPU, one result for each request.
[[nodiscard]] std::vector<run_result> decode_on_host(const pair_views& pair, const std::vector<run_request>& requests);

/// Logits of every token, (tokens, v), from one forward on the CPU.
[[nodiscard]] std::vector<float> logits_on_host(const pair_views& pair, const std::vector<dflash::token_id>& tokens);

}  // namespace device_check
