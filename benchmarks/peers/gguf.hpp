// Writes the target of a work as a GGUF file (version 3), so that peers run the same weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "support/standard_work.hpp"

namespace dflash::bench {

/// Where a tensor's data begins in the file, in bytes.
using tensor_offsets = std::map<std::string, index>;

/// Matrices keep their type, vectors become F32. A file of the same name and size is left as it is. Errors: io_error.
tensor_offsets write_gguf(const std::filesystem::path& path, const work& w);

/// The file of this work in peer_folder(), written when it is not there.
struct model_file {
    std::filesystem::path path;
    tensor_offsets offsets;
};
[[nodiscard]] model_file gguf_of(const work& w);

}  // namespace dflash::bench
