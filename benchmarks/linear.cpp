// How close linear comes to what the machine can do: the speed of its memory at one row, of its multipliers at sixteen.
//
// Every contender runs once in each round and the medians are compared, because neither memory nor clock speed stands
// still on a shared machine. Sixteen matrices take turns, so that weights come from memory, as in a model.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/convert.hpp>

#include "support/linear_rivals.hpp"

namespace {

using dflash::dtype;
using dflash::index;

constexpr index k = 2048;
constexpr index n = 6144;
constexpr int matrices = 16;
constexpr int rounds = 7;
constexpr int threads = 2;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// Numbers in [-1, 1) that do not depend on the library.
std::vector<float> noise(index size) {
    std::vector<float> values(static_cast<std::size_t>(size));
    std::uint32_t state = 1;
    for (float& value : values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    }
    return values;
}

/// Sixteen packed matrices of one type.
std::vector<dflash::cpu::linear_weights> packed_matrices(const dflash::cpu::exact& ops, dtype type) {
    const std::vector<float> values = noise(k * n);
    std::vector<std::uint16_t> halves;
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    if (type == dtype::bf16) {
        for (const float value : values) {
            halves.push_back(dflash::numerics::to_bf16(value).bits);
        }
        bytes = reinterpret_cast<const std::byte*>(halves.data());
    }
    std::vector<dflash::cpu::linear_weights> packed;
    for (int i = 0; i < matrices; ++i) {
        const std::array parts = {dflash::tensor_view{type, bytes, n, k}};
        packed.push_back(ops.pack(parts));
    }
    return packed;
}

void linear(benchmark::State& state, dtype type, index rows, bool with_eigen) {
    const dflash::cpu::exact ops({threads, dflash::cpu::isa::automatic});
    const auto packed = packed_matrices(ops, type);
    std::vector<float> x = noise(rows * k);
    std::vector<float> y(static_cast<std::size_t>(rows * n));
    const dflash::matrix_view<const float> input(x.data(), rows, k);
    const dflash::matrix_view<float> output(y.data(), rows, n);
    std::unique_ptr<rivals::eigen_products> eigen;
    if (with_eigen) {
        eigen = std::make_unique<rivals::eigen_products>(k, n, rows, matrices, threads);
    }

    double sink = 0;
    std::vector<double> exact_time;
    std::vector<double> read_time;
    std::vector<double> flop_rate;
    std::vector<double> eigen_rows_time;
    std::vector<double> eigen_columns_time;
    for (auto _ : state) {
        for (int round = 0; round < rounds; ++round) {
            exact_time.push_back(seconds_of([&] {
                                     for (const auto& w : packed) {
                                         ops.linear(input, w, output);
                                     }
                                 }) /
                                 matrices);
            read_time.push_back(seconds_of([&] {
                                    for (const auto& w : packed) {
                                        sink += rivals::read_all(w.data(), w.bytes(), threads);
                                    }
                                }) /
                                matrices);
            double flop = 0;
            const double flop_seconds = seconds_of([&] { flop = rivals::multiply_add(threads, sink); });
            flop_rate.push_back(flop / flop_seconds);
            if (eigen) {
                for (const bool row_major : {true, false}) {
                    auto& times = row_major ? eigen_rows_time : eigen_columns_time;
                    times.push_back(seconds_of([&] {
                                        for (int i = 0; i < matrices; ++i) {
                                            eigen->run(i, row_major);
                                        }
                                    }) /
                                    matrices);
                }
            }
        }
    }
    benchmark::DoNotOptimize(sink);
    benchmark::DoNotOptimize(y.data());

    const double time = median(exact_time);
    const double flop = 2.0 * static_cast<double>(rows * k * n);
    const double memory_time = median(read_time);
    const double compute_time = flop / median(flop_rate);
    state.counters["ms"] = time * 1e3;
    state.counters["GB/s"] = static_cast<double>(packed[0].bytes()) / time * 1e-9;
    state.counters["GFLOP/s"] = flop / time * 1e-9;
    state.counters["of_read"] = memory_time / time;
    state.counters["of_fma"] = compute_time / time;
    state.counters["of_roofline"] = (std::max)(memory_time, compute_time) / time;
    if (eigen) {
        state.counters["vs_eigen"] = (std::min)(median(eigen_rows_time), median(eigen_columns_time)) / time;
    }
}

void one_row_f32(benchmark::State& state) {
    linear(state, dtype::f32, 1, true);
}
void one_row_bf16(benchmark::State& state) {
    linear(state, dtype::bf16, 1, false);
}
void sixteen_rows_f32(benchmark::State& state) {
    linear(state, dtype::f32, 16, true);
}
void sixteen_rows_bf16(benchmark::State& state) {
    linear(state, dtype::bf16, 16, false);
}

BENCHMARK(one_row_f32)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(one_row_bf16)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(sixteen_rows_f32)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(sixteen_rows_bf16)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
