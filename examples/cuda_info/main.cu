// Prints one line for each CUDA device that the backend can use. Status 3: there is none.
#include <cstdio>
#include <exception>

#include <cuda_runtime.h>
#include <dflash/cuda/exact.hpp>

namespace {

void print_device(int number) {
    cudaDeviceProp device = {};
    dflash::cuda::runtime::check(cudaGetDeviceProperties(&device, number), "device");
    std::printf("%d: %s, sm_%d%d, %d multiprocessors, %.1f GiB\n", number, device.name, device.major, device.minor,
                device.multiProcessorCount, static_cast<double>(device.totalGlobalMem) / (1024.0 * 1024.0 * 1024.0));
}

}  // namespace

int main() {
    try {
        const dflash::cuda::exact backend;
        for (int i = 0; i < dflash::cuda::runtime::device_count(); ++i) {
            print_device(i);
        }
        return 0;
    } catch (const dflash::backend_error& failure) {
        std::fprintf(stderr, "cuda-info: %s\n", failure.what());
        return 3;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "cuda-info: error: %s\n", failure.what());
        return 2;
    }
}
