// The programs and libraries that this one is measured against. Each is used only where it is installed: nothing of
// theirs is part of this project.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/step_engine.hpp"

namespace dflash::bench {

/// A peer that runs whole steps. `make` is empty where it is not installed; why_not says what would change that.
struct step_peer {
    std::string label;
    std::string why_not;
    std::function<index(dtype)> kv_bytes;
    std::function<std::unique_ptr<step_engine>(const work&, int threads)> make;
};

/// The ways to run llama.cpp or torch; none for any other name. Labels of ways begin with the name and a comma.
[[nodiscard]] std::vector<step_peer> find_step_peers(std::string_view name);

/// Where models are written for peers to read; the caller sets it before any peer is made.
void set_peer_folder(std::string folder);
[[nodiscard]] const std::string& peer_folder();

}  // namespace dflash::bench
