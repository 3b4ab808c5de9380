// Small kernels with known results, some of them broken on purpose, and what the tests need around them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <dflash/cuda/runtime.hpp>

namespace dflash::test {

/// Restores the settings and forgets the counts at its end.
class settings_scope {
public:
    settings_scope() { cuda::shim::reset_counts(); }
    ~settings_scope() {
        cuda::shim::settings = saved_;
        cuda::shim::reset_counts();
    }
    settings_scope(const settings_scope&) = delete;
    settings_scope& operator=(const settings_scope&) = delete;

private:
    cuda::shim::options saved_ = cuda::shim::settings;
};

class stream_scope {
public:
    stream_scope() : stream_(cuda::runtime::create_stream()) {}
    ~stream_scope() { cuda::runtime::destroy(stream_); }
    stream_scope(const stream_scope&) = delete;
    stream_scope& operator=(const stream_scope&) = delete;

    operator cuda::runtime::stream() const { return stream_; }

private:
    cuda::runtime::stream stream_;
};

/// Elements in device memory, not initialised.
template <class T>
class device_array {
public:
    explicit device_array(std::size_t size)
        : size_(size), data_(static_cast<T*>(cuda::runtime::allocate(size * sizeof(T)))) {}
    explicit device_array(const std::vector<T>& values) : device_array(values.size()) {
        const stream_scope stream;
        cuda::runtime::copy(data_, values.data(), size_ * sizeof(T), stream);
        cuda::runtime::wait(stream);
    }
    ~device_array() { cuda::runtime::release(data_); }
    device_array(const device_array&) = delete;
    device_array& operator=(const device_array&) = delete;

    [[nodiscard]] T* data() const { return data_; }
    [[nodiscard]] std::vector<T> values() const {
        std::vector<T> out(size_);
        const stream_scope stream;
        cuda::runtime::copy(out.data(), data_, size_ * sizeof(T), stream);
        cuda::runtime::wait(stream);
        return out;
    }

private:
    std::size_t size_;
    T* data_;
};

/// Launches and waits.
template <class Kernel>
void run_kernel(const cuda::launch_shape& shape, const typename Kernel::arguments& arguments) {
    const stream_scope stream;
    cuda::runtime::launch<Kernel>(stream, shape, arguments);
    cuda::runtime::wait(stream);
}

/// What is left out of a kernel.
enum class fault : std::uint8_t { none, before_reading, after_reading };

/// Sums of `rounds` rows of `threads` numbers for each block: by shuffles in the warps, then over the warps.
template <fault Fault>
struct row_sums {
    struct arguments {
        const int* in;  // (blocks, rounds, threads)
        int* sums;      // (blocks, rounds)
        int rounds;
    };
    static constexpr int max_threads = 256;
    static constexpr int shared_bytes(int threads) { return 4 * threads / cuda::warp_size; }

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        int* const of_warps = t.template shared<int>(0);
        for (int round = 0; round < a.rounds; ++round) {
            const int at = t.block_x() * a.rounds + round;
            int sum = a.in[at * t.threads() + t.thread()];
            for (int delta = cuda::warp_size / 2; delta > 0; delta /= 2) {
                sum += t.shuffle_down(sum, delta);
            }
            if (t.lane() == 0) {
                of_warps[t.warp()] = sum;
            }
            barrier<fault::before_reading>(t);
            if (t.thread() == 0) {
                int total = 0;
                for (int w = 0; w < t.threads() / cuda::warp_size; ++w) {
                    total += of_warps[w];
                }
                a.sums[at] = total;
            }
            barrier<fault::after_reading>(t);
        }
    }

private:
    template <fault Left, class Thread>
    DFLASH_DEVICE static void barrier(const Thread& t) {
        if constexpr (Left != Fault) {
            t.sync();
        }
    }
};

/// A lane reads what another one of its warp wrote, with nothing but a shuffle in between, which orders no memory.
struct shuffle_as_barrier {
    struct arguments {
        int* out;
    };
    static constexpr int max_threads = cuda::warp_size;
    static constexpr int shared_bytes = 4 * cuda::warp_size;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        int* const row = t.template shared<int>(0);
        row[t.lane()] = t.lane();
        const int zero = t.shuffle(0, 0);
        a.out[t.lane()] = row[(t.lane() + 1) % cuda::warp_size] + zero;
    }
};

/// Inputs and launches for row_sums.
struct row_sums_case {
    int blocks = 3;
    int threads = 128;
    int rounds = 3;

    [[nodiscard]] std::vector<int> numbers() const {
        std::vector<int> in(static_cast<std::size_t>(blocks * rounds * threads));
        std::uint32_t state = 7;
        for (int& number : in) {
            state = state * 1664525U + 1013904223U;
            number = static_cast<int>(state >> 16);
        }
        return in;
    }

    [[nodiscard]] std::vector<int> expected() const {
        const std::vector<int> in = numbers();
        std::vector<int> sums(static_cast<std::size_t>(blocks * rounds));
        for (std::size_t i = 0; i < in.size(); ++i) {
            sums[i / static_cast<std::size_t>(threads)] += in[i];
        }
        return sums;
    }

    template <fault Fault>
    [[nodiscard]] std::vector<int> run() const {
        const device_array<int> in(numbers());
        const device_array<int> sums(static_cast<std::size_t>(blocks * rounds));
        using kernel = row_sums<Fault>;
        run_kernel<kernel>({{static_cast<unsigned>(blocks), 1, 1}, threads, kernel::shared_bytes(threads)},
                           {in.data(), sums.data(), rounds});
        return sums.values();
    }
};

}  // namespace dflash::test
