// llama.cpp as a contender, where its headers and libraries were found when this was configured.
#pragma once

#include "peers/peers.hpp"

namespace dflash::bench {

[[nodiscard]] step_peer llama_peer();

}  // namespace dflash::bench
