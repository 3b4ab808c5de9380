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

const step_peer* find_step_peer(std::string_view name) {
    static const step_peer llama = llama_peer();
    static const step_peer torch = torch_peer();
    return name == "llama.cpp" ? &llama : (name == "torch" ? &torch : nullptr);
}

void set_peer_folder(std::string path) {
    folder() = std::move(path);
}

const std::string& peer_folder() {
    return folder();
}

}  // namespace dflash::bench
