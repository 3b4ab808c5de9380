// What the machine can do: the speed of its memory now, and of its multipliers.
//
// Compiled by itself with every flag that helps it (-march=native), while the library is measured as users build it,
// for a generic machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dflash::bench {

/// Reads bytes once with all threads, and does nothing else. Returns something that depends on all of them.
double read_all(const void* data, std::size_t bytes, int threads);

/// Floating-point operations per second.
struct compute_peaks {
    double fma = 0;       ///< multiply-adds of float
    double bf16_dot = 0;  ///< 0: none
};

/// Independent operations in registers. Every thread times itself and its best try counts, so that other programs on
/// the machine change little.
[[nodiscard]] compute_peaks measure_peaks(int threads);

/// Measures the memory whenever it is asked to.
class memory_probe {
public:
    /// Reads 256 MiB, more than caches hold.
    explicit memory_probe(int threads);

    /// Bytes per second of one plain read by all threads.
    [[nodiscard]] double bytes_per_second();

private:
    int threads_;
    std::vector<std::uint64_t> memory_;
    double sink_ = 0;
};

/// What the system calls this processor, and how many of them there are.
struct machine {
    std::string processor;
    unsigned threads = 0;
    bool avx2 = false;
    bool avx512 = false;
    bool avx512_bf16 = false;
};
[[nodiscard]] machine describe_machine();

}  // namespace dflash::bench
