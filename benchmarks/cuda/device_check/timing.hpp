// Times of graph replays, and what the device can do at most: the ceilings that kernels are held against.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "inputs.hpp"

namespace device_check {

/// Seconds between two points of a stream.
class stream_clock {
public:
    explicit stream_clock(cuda::runtime::stream s) : stream_(s) {
        cuda::runtime::check(cudaEventCreate(&start_), "event");
        cuda::runtime::check(cudaEventCreate(&stop_), "event");
    }
    stream_clock(const stream_clock&) = delete;
    stream_clock& operator=(const stream_clock&) = delete;
    ~stream_clock() {
        static_cast<void>(cudaEventDestroy(start_));
        static_cast<void>(cudaEventDestroy(stop_));
    }

    void start() { cuda::runtime::check(cudaEventRecord(start_, stream_), "event"); }
    [[nodiscard]] double stop() {
        float milliseconds = 0;
        cuda::runtime::check(cudaEventRecord(stop_, stream_), "event");
        cuda::runtime::check(cudaEventSynchronize(stop_), "wait");
        cuda::runtime::check(cudaEventElapsedTime(&milliseconds, start_, stop_), "event");
        return static_cast<double>(milliseconds) * 1e-3;
    }

private:
    cuda::runtime::stream stream_;
    cudaEvent_t start_ = nullptr;
    cudaEvent_t stop_ = nullptr;
};

/// The median of nine times of body(), after two to warm up.
template <class Body>
double median_seconds(cuda::runtime::stream s, Body body) {
    stream_clock clock(s);
    std::vector<double> times;
    for (int run = -2; run < 9; ++run) {
        clock.start();
        body();
        const double seconds = clock.stop();
        if (run >= 0) {
            times.push_back(seconds);
        }
    }
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    return times[4];
}

/// Seconds of one body(i), from replays of a graph that holds body(0) .. body(calls - 1).
template <class Body>
double seconds_per_call(const cuda::exact& ops, int calls, Body body) {
    const cuda::runtime::stream s = ops.context().stream();
    for (int i = 0; i < calls; ++i) {
        body(i);  // whatever must be allocated is allocated now
    }
    ops.wait();
    cuda::runtime::begin_capture(s);
    for (int i = 0; i < calls; ++i) {
        body(i);
    }
    const cuda::runtime::graph graph = cuda::runtime::end_capture(s);
    const double seconds = median_seconds(s, [&] { cuda::runtime::launch(graph, s); });
    cuda::runtime::destroy(graph);
    return seconds / calls;
}

/// Eight chains of fma in each thread, sixteen steps of each between two tests of the loop.
struct fma_kernel {
    static constexpr int max_threads = 256;
    static constexpr int chains = 8;
    static constexpr int steps = 16;

    struct arguments {
        float* out;
        int rounds;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        float chain[std::size_t{chains}];
        DFLASH_UNROLL
        for (int c = 0; c < chains; ++c) {
            chain[c] = static_cast<float>(t.thread() + c);
        }
        for (int round = 0; round < a.rounds; ++round) {
            DFLASH_UNROLL
            for (int step = 0; step < steps; ++step) {
                DFLASH_UNROLL
                for (int c = 0; c < chains; ++c) {
                    chain[c] = numerics::fma(chain[c], 0.9999F, 0.5F);
                }
            }
        }
        float total = 0;
        DFLASH_UNROLL
        for (int c = 0; c < chains; ++c) {
            total = total + chain[c];
        }
        a.out[t.block_x() * t.threads() + t.thread()] = total;
    }
};

/// Reads everything once and keeps next to nothing.
struct read_kernel {
    static constexpr int max_threads = 512;

    struct arguments {
        const cuda::word4* from;
        std::int64_t words;
        std::uint32_t* out;
        int blocks;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        std::uint32_t seen = 0;
        const std::int64_t step = std::int64_t{a.blocks} * t.threads();
        DFLASH_UNROLL_BY_4
        for (std::int64_t i = std::int64_t{t.block_x()} * t.threads() + t.thread(); i < a.words; i += step) {
            const cuda::word4 word = a.from[i];
            seen ^= word.v[0] ^ word.v[1] ^ word.v[2] ^ word.v[3];
        }
        if (seen == 0x12345678U) {
            *a.out = seen;
        }
    }
};

/// Random stored weights, made where they are: bf16 in -0.0625 .. 0.0625, or f32 in the same range.
struct fill_kernel {
    static constexpr int max_threads = 256;

    struct arguments {
        std::uint16_t* bf16_out;  ///< one of them is null
        float* f32_out;
        std::int64_t count;
        int blocks;
    };

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const std::int64_t step = std::int64_t{a.blocks} * t.threads();
        for (std::int64_t i = std::int64_t{t.block_x()} * t.threads() + t.thread(); i < a.count; i += step) {
            std::uint64_t z = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
            const float value = static_cast<float>(static_cast<std::int32_t>(z >> 32)) * 0x1p-35F;
            if (a.bf16_out != nullptr) {
                a.bf16_out[i] = numerics::to_bf16(value).bits;
            } else {
                a.f32_out[i] = value;
            }
        }
    }
};

/// Stored weights in device memory. Tensors of any shape are views of the same numbers; packing copies from there.
class device_numbers {
public:
    device_numbers(const cuda::exact& ops, dtype type, index count) : type_(type), bytes_(count * size_of(type)) {
        constexpr int blocks = 4096;
        auto* const memory = bytes_.data();
        ops.context().launch<fill_kernel>(
            {{blocks, 1, 1}, fill_kernel::max_threads, 0},
            {type == dtype::bf16 ? reinterpret_cast<std::uint16_t*>(memory) : nullptr,
             type == dtype::bf16 ? nullptr : reinterpret_cast<float*>(memory), count, blocks});
        ops.wait();
    }

    [[nodiscard]] dflash::tensor_view view(index rows, index cols) const { return {type_, bytes_.data(), rows, cols}; }

private:
    dtype type_;
    dflash::buffer<std::byte, device_space> bytes_;
};

/// What the device can do at most.
struct ceilings {
    double copy_bandwidth = 0;  ///< bytes a second, what is read and what is written both counted
    double read_bandwidth = 0;  ///< bytes a second
    double flops = 0;           ///< f32, an fma counted as two, a second

    /// Seconds below which nothing that moves so many bytes and does so many operations can come.
    [[nodiscard]] double least_seconds(double bytes, double operations) const {
        return (std::max)(bytes / copy_bandwidth, operations / flops);
    }
};

inline ceilings measure_ceilings(const cuda::exact& ops) {
    ceilings found;
    const cuda::runtime::stream s = ops.context().stream();
    constexpr index bytes = index{2} << 30;
    const dflash::buffer<std::byte, device_space> from(bytes);
    dflash::buffer<std::byte, device_space> to(bytes);
    found.copy_bandwidth = 2.0 * static_cast<double>(bytes) / median_seconds(s, [&] {
                               cuda::runtime::copy(to.data(), from.data(), static_cast<std::size_t>(bytes), s);
                           });
    constexpr int blocks = 132 * 16;
    dflash::buffer<float, device_space> out(index{blocks} * 1024);
    found.read_bandwidth =
        static_cast<double>(bytes) / median_seconds(s, [&] {
            ops.context().launch<read_kernel>(
                {{blocks, 1, 1}, read_kernel::max_threads, 0},
                {reinterpret_cast<const cuda::word4*>(from.data()), bytes / index{sizeof(cuda::word4)},
                 reinterpret_cast<std::uint32_t*>(out.data()), blocks});
        });
    constexpr int rounds = 2000;
    found.flops =
        2.0 * blocks * fma_kernel::max_threads * fma_kernel::chains * fma_kernel::steps * rounds /
        median_seconds(s, [&] {
            ops.context().launch<fma_kernel>({{blocks, 1, 1}, fma_kernel::max_threads, 0}, {out.data(), rounds});
        });
    return found;
}

}  // namespace device_check
