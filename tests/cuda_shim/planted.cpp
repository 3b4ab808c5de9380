// planted <fault>: a program for the sanitizers, which must report the fault, or nothing for "none".
#include <cstdio>
#include <cstring>

#include <cuda_shim/toy_kernels.hpp>

namespace dflash::test {
namespace {

/// Writes `size` ints of shared memory, without asking the simulator where they end.
struct fill_shared {
    struct arguments {
        int size;
        int* out;
    };
    static constexpr int max_threads = cuda::warp_size;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.lane() == 0) {
            int* const shared = t.template shared<int>(0);
            for (int i = 0; i < a.size; ++i) {
                shared[i] = i;
                a.out[i] = shared[i];
            }
        }
    }
};

bool is(const char* asked, const char* fault) {
    return std::strcmp(asked, fault) == 0;
}

void run(const char* asked) {
    const row_sums_case small{2, 64, 2};
    const std::vector<int> expected = small.expected();
    cuda::shim::settings.engine = cuda::shim::engine::threads;
    if (is(asked, "none")) {
        for (const cuda::shim::engine engine : {cuda::shim::engine::threads, cuda::shim::engine::fibers}) {
            cuda::shim::settings.engine = engine;
            if (small.run<fault::none>() != expected) {
                std::puts("wrong sums");
            }
            const device_array<int> out(8);
            run_kernel<fill_shared>({{}, cuda::warp_size, 32}, {8, out.data()});
        }
    } else if (is(asked, "no_barrier_before_reading")) {
        static_cast<void>(small.run<fault::before_reading>());
    } else if (is(asked, "no_barrier_after_reading")) {
        static_cast<void>(small.run<fault::after_reading>());
    } else if (is(asked, "shuffle_as_barrier")) {
        const device_array<int> out(cuda::warp_size);
        run_kernel<shuffle_as_barrier>({{}, cuda::warp_size, shuffle_as_barrier::shared_bytes}, {out.data()});
    } else if (is(asked, "shared_overrun")) {
        cuda::shim::settings.engine = cuda::shim::engine::fibers;
        const device_array<int> out(9);
        run_kernel<fill_shared>({{}, cuda::warp_size, 32}, {9, out.data()});
    } else if (is(asked, "device_overrun")) {
        cuda::shim::settings.engine = cuda::shim::engine::fibers;
        const device_array<int> out(8);
        run_kernel<fill_shared>({{}, cuda::warp_size, 36}, {9, out.data()});
    } else if (is(asked, "host_reads_device")) {
        const device_array<int> out(std::vector<int>{1, 2, 3});
        std::printf("%d\n", out.data()[1]);
    } else {
        std::puts("no such fault");
    }
}

}  // namespace
}  // namespace dflash::test

int main(int count, char** words) {
    dflash::test::run(count > 1 ? words[1] : "none");
    return 0;
}
