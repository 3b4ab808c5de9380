// --dump: the tensors of the first round with drafts, as a safetensors file in F32.
#pragma once

#include <string>

#include <dflash/io/safetensors.hpp>

#include "common/engine.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// context_features (prompt, d), draft_logits (b-1, v), verify_logits (b, v). Errors: config_error, io_error.
inline void write_first_round(const std::string& path, const first_round& tensors) {
    if (tensors.verify_logits.empty()) {
        raise<config_error>(
            "--dump: no round had drafts, so there is nothing to write; allow 3 new tokens or more, "
            "and a block size of 2 or more");
    }
    const auto rows = [](const std::vector<float>& values, index width) { return size_of(std::span(values)) / width; };
    const index d = tensors.hidden_size;
    const index v = tensors.vocab_size;
    io::safetensors_writer file;
    file.add("context_features", {rows(tensors.context_features, d), d}, tensors.context_features);
    file.add("draft_logits", {rows(tensors.draft_logits, v), v}, tensors.draft_logits);
    file.add("verify_logits", {rows(tensors.verify_logits, v), v}, tensors.verify_logits);
    file.write(path);
}

}  // namespace examples
DFLASH_END_NAMESPACE
