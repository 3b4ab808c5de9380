#include "peers/peers.hpp"

#include <utility>

#include "peers/llama.hpp"
#include "peers/torch.hpp"

namespace dflash::bench {

namespace {

std::string& folder() {
    static std::string path = ".";
    return path;
}

}  // namespace

std::vector<step_peer> find_step_peers(std::string_view name) {
    if (name == "llama.cpp") {
        return llama_peers();
    }
    if (name == "torch") {
        return {torch_peer()};
    }
    return {};
}

void set_peer_folder(std::string path) {
    folder() = std::move(path);
}

const std::string& peer_folder() {
    return folder();
}

}  // namespace dflash::bench
