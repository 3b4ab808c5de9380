// PyTorch as a contender: torch_steps.py in a process of its own, where python3 can import torch.
#pragma once

#include "peers/peers.hpp"

namespace dflash::bench {

[[nodiscard]] step_peer torch_peer();

}  // namespace dflash::bench
