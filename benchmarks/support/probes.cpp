#include "support/probes.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace dflash::bench {

namespace {

using position = std::ptrdiff_t;

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX2__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
using words = std::uint32_t __attribute__((vector_size(4 * lanes)));
using floats = float __attribute__((vector_size(4 * lanes)));

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double read_all(const void* data, std::size_t bytes, int threads) {
    // Four streams and a look ahead: the fastest plain read found.
    constexpr position block = 8192;
    constexpr position stream = block / 4;
    constexpr position ahead = 2048 / static_cast<position>(sizeof(words));
    const auto* first = static_cast<const words*>(data);
    const auto count = static_cast<position>(bytes / sizeof(words));
    const position blocks = count / block;
    std::uint32_t total = 0;
    static_cast<void>(threads);
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        words sum[8] = {};
#pragma omp for schedule(dynamic, 1) nowait
        for (position b = 0; b <= blocks; ++b) {
            const words* p = first + b * block;
            if (b == blocks) {
                for (position i = b * block; i < count; ++i) {
                    sum[0] ^= first[i];
                }
                continue;
            }
            for (position i = 0; i < stream; i += 2) {
#pragma GCC unroll 4
                for (position j = 0; j < 4; ++j) {
                    const words* q = p + j * stream + i;
                    __builtin_prefetch(q + ahead);
                    __builtin_prefetch(q + ahead + 1);
                    sum[2 * j] ^= q[0];
                    sum[2 * j + 1] ^= q[1];
                }
            }
        }
        for (const words& s : sum) {
            for (int l = 0; l < lanes; ++l) {
                total += s[l];
            }
        }
    }
    return static_cast<double>(total);
}

double multiply_add(int threads, double& sink) {
    constexpr int chains = 16;
    constexpr position steps = 100000;
    double total = 0;
    static_cast<void>(threads);
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        floats acc[chains];
        floats factor = {};
        floats term = {};
        factor = factor + 0.999F;
        term = term + 0.001F;
        for (int c = 0; c < chains; ++c) {
            acc[c] = term * static_cast<float>(c);
        }
        for (position i = 0; i < steps; ++i) {
#pragma GCC unroll 16
            for (int c = 0; c < chains; ++c) {
                acc[c] = acc[c] * factor + term;
            }
        }
        for (int c = 0; c < chains; ++c) {
            total += static_cast<double>(acc[c][0]);
        }
    }
    sink += total;
    return 2.0 * lanes * chains * static_cast<double>(steps) * threads;
}

double bf16_dot(int threads, double& sink) {
#if defined(__AVX512BF16__)
    constexpr int chains = 16;
    constexpr position steps = 100000;
    double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        __m512 acc[chains];
        const __m512 small = _mm512_set1_ps(0.001F);
        const __m512bh factor = _mm512_cvtne2ps_pbh(small, small);
        for (int c = 0; c < chains; ++c) {
            acc[c] = _mm512_set1_ps(static_cast<float>(c));
        }
        for (position i = 0; i < steps; ++i) {
#pragma GCC unroll 16
            for (int c = 0; c < chains; ++c) {
                acc[c] = _mm512_dpbf16_ps(acc[c], factor, factor);
            }
        }
        for (int c = 0; c < chains; ++c) {
            total += static_cast<double>(_mm512_reduce_add_ps(acc[c]));
        }
    }
    sink += total;
    return 4.0 * 16 * chains * static_cast<double>(steps) * threads;
#else
    static_cast<void>(threads);
    static_cast<void>(sink);
    return 0;
#endif
}

compute_peaks measure_peaks(int threads) {
    const bool has_bf16 = describe_machine().avx512_bf16;
    compute_peaks peaks;
    volatile double kept = 0;
    double sink = 0;
    for (int i = 0; i < 30; ++i) {
        double flop = 0;
        double seconds = seconds_of([&] { flop = multiply_add(threads, sink); });
        peaks.fma = (std::max)(peaks.fma, flop / seconds);
        if (has_bf16) {
            seconds = seconds_of([&] { flop = bf16_dot(threads, sink); });
            peaks.bf16_dot = (std::max)(peaks.bf16_dot, flop / seconds);
        }
    }
    kept = sink;
    static_cast<void>(kept);
    return peaks;
}

memory_probe::memory_probe(int threads) : threads_(threads), memory_(std::size_t{1} << 25) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        memory_[i] = i;
    }
    static_cast<void>(bytes_per_second());
}

double memory_probe::bytes_per_second() {
    const std::size_t bytes = memory_.size() * sizeof(memory_[0]);
    const double seconds = seconds_of([&] { sink_ += read_all(memory_.data(), bytes, threads_); });
    return static_cast<double>(bytes) / seconds;
}

machine describe_machine() {
    machine m;
    m.threads = std::thread::hardware_concurrency();
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (m.processor.empty() && std::getline(file, line)) {
        if (line.rfind("model name", 0) == 0) {
            m.processor = line.substr(line.find(':') + 2);
        }
    }
#if defined(__x86_64__)
    m.avx2 = __builtin_cpu_supports("avx2") != 0;
    m.avx512 = __builtin_cpu_supports("avx512f") != 0;
    m.avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
#endif
    return m;
}

}  // namespace dflash::bench
