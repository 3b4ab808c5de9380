#include "support/probes.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
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

namespace {

constexpr int chains = 16;
constexpr position steps = 20000;
constexpr int tries = 50;

/// Independent multiply-adds. Returns the floating-point operations done.
double multiply_add(double& sink) {
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
        sink += static_cast<double>(acc[c][0]);
    }
    return 2.0 * lanes * chains * static_cast<double>(steps);
}

#if defined(__AVX512BF16__)
/// The same with dot products of pairs of bfloat16 that add to float.
double bf16_dot(double& sink) {
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
        sink += static_cast<double>(_mm512_reduce_add_ps(acc[c]));
    }
    return 4.0 * 16 * chains * static_cast<double>(steps);
}
#endif

/// The sum of the threads' best rates.
template <class Work>
double peak_rate(int threads, Work work) {
    double total = 0;
    double kept = 0;
    static_cast<void>(threads);
#pragma omp parallel num_threads(threads) reduction(+ : total, kept)
    {
        double best = 0;
        for (int i = 0; i < tries; ++i) {
            const auto start = std::chrono::steady_clock::now();
            const double flop = work(kept);
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
            best = (std::max)(best, flop / seconds.count());
        }
        total += best;
    }
    volatile double sink = kept;
    static_cast<void>(sink);
    return total;
}

}  // namespace

compute_peaks measure_peaks(int threads) {
    compute_peaks peaks;
    peaks.fma = peak_rate(threads, multiply_add);
#if defined(__AVX512BF16__)
    peaks.bf16_dot = peak_rate(threads, bf16_dot);
#endif
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
    const auto start = std::chrono::steady_clock::now();
    sink_ += read_all(memory_.data(), bytes, threads_);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return static_cast<double>(bytes) / seconds.count();
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
