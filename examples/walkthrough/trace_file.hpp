// Traces of real runs, as dflash-generate --trace writes them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// A trace with every field in place and all numbers in agreement: positions, anchors, posteriors, cache rows and
/// statistics are those of the rounds. Errors: io_error that names the field, what it is and what it has to be.
[[nodiscard]] nlohmann::ordered_json parse_trace(const std::string& name, const std::string& text);

/// The same from a file. Errors: io_error.
[[nodiscard]] nlohmann::ordered_json read_trace(const std::string& path);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
