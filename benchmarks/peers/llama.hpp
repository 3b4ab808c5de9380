// llama.cpp as a contender, where its headers and libraries were found when this was configured.
#pragma once

#include "peers/peers.hpp"

namespace dflash::bench {

/// With its fused attention, and without: which is faster depends on the context and on the rows.
[[nodiscard]] std::vector<step_peer> llama_peers();

}  // namespace dflash::bench
