// The CUDA engine of dflash-generate as plain C++ in the simulator. DFLASH_SIMULATED_DEVICES: how many devices it has.
#include <cstdlib>

#include "common/cuda_engine.cu"

namespace {

[[maybe_unused]] const bool devices_chosen = [] {
    if (const char* count = std::getenv("DFLASH_SIMULATED_DEVICES")) {
        dflash::cuda::shim::settings.devices = std::atoi(count);
    }
    return true;
}();

}  // namespace
