// Every header of the CUDA backend in one translation unit, over the simulator: what clang-tidy reads.
#include <dflash/cuda/fast.hpp>
#include <dflash/cuda/sampling.hpp>
