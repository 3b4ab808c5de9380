// The kernels of the exact backend, compiled once for all tests that define DFLASH_CPU_SEPARATE_KERNELS.
#include <dflash/cpu/kernel_sets.hpp>
