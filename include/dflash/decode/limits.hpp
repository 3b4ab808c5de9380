// Where a generation ends, and why it did.
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// The ends of one generation. They are applied token by token, inside a block too.
struct generation_limits {
    index max_new_tokens = 256;                           ///< the budget; 0 samples nothing
    std::vector<token_id> stop_tokens{};                  ///< any of them ends the text and is delivered
    std::vector<std::vector<token_id>> stop_sequences{};  ///< matched on generated tokens; the match is delivered
    index context_limit = 0;    ///< longest sequence, prompt included; 0: what the model can hold
    index prefill_chunk = 256;  ///< prompt tokens per forward; changes no bits
};

/// Why a generation is over.
enum class finish_reason : std::uint8_t {
    running,    ///< it is not
    stop,       ///< a stop token or a stop sequence
    length,     ///< the budget
    context,    ///< the context limit
    cancelled,  ///< the caller said so
};

[[nodiscard]] constexpr std::string_view name_of(finish_reason reason) noexcept {
    switch (reason) {
        case finish_reason::running: return "running";
        case finish_reason::stop: return "stop";
        case finish_reason::length: return "length";
        case finish_reason::context: return "context";
        case finish_reason::cancelled: return "cancelled";
    }
    return "?";
}

DFLASH_END_NAMESPACE
