// Who takes part in the whole-step comparison. Another way to run the library is one more push_back.
#include <algorithm>

#include <dflash/cpu/exact.hpp>

#include "peers/peers.hpp"
#include "support/dflash_engine.hpp"

namespace dflash::bench {

namespace {

contender ours(std::string name, cpu::exact_options options, bool bf16_dots) {
    return {.name = std::move(name),
            .kv_bytes = 4,
            .bf16_dots = bf16_dots,
            .make = [options](const work& w, int threads) mutable -> std::unique_ptr<step_engine> {
                options.threads = threads;
                return std::make_unique<dflash_engine<cpu::exact>>(w, cpu::exact(options));
            }};
}

}  // namespace

std::vector<contender> step_contenders(dtype type, const std::vector<std::string>& peers,
                                       std::vector<std::string>& missing) {
    std::vector<contender> out;
    out.push_back(ours("dflash", {}, false));
    if (type == dtype::bf16) {
        out.push_back(ours("dflash bf16 tier", {.activation = activation_type::bf16}, true));
    }
    for (const std::string& name : peers) {
        const std::vector<step_peer> ways = find_step_peers(name);
        if (ways.empty()) {
            raise<config_error>("--peers: got \"", name, "\", needs llama.cpp, torch or none");
        }
        for (const step_peer& peer : ways) {
            if (peer.make == nullptr) {
                missing.push_back(peer.label + ": skipped, " + peer.why_not);
                continue;
            }
            out.push_back({.name = peer.label,
                           .kv_bytes = peer.kv_bytes(type),
                           .bf16_dots = type == dtype::bf16,
                           .make = peer.make});
        }
    }
    return out;
}

}  // namespace dflash::bench
