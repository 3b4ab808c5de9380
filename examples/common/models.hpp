// Where the models that come with the project lie.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <dflash/contracts.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// The folder of a shipped pair: in the source tree this program was built from or, if that has moved, in the one
/// that holds the program or the current folder. Errors: config_error.
[[nodiscard]] inline std::filesystem::path shipped_pair(const std::string& name) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    std::vector<fs::path> candidates = {fs::path(DFLASH_MODELS)};
    for (fs::path place : {fs::read_symlink("/proc/self/exe", ignored).parent_path(), fs::current_path(ignored)}) {
        for (; !place.empty(); place = place.parent_path()) {
            candidates.push_back(place / "examples" / "models");
            if (place == place.root_path()) {
                break;
            }
        }
    }
    for (const fs::path& folder : candidates) {
        if (fs::is_directory(folder / name / "target", ignored)) {
            return folder / name;
        }
    }
    raise<config_error>("the model that comes with the project, examples/models/", name,
                        ", is not where it was when this program was built: name another with --target and --draft");
}

}  // namespace examples
DFLASH_END_NAMESPACE
