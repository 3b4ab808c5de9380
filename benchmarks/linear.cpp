// How close linear comes to what the machine can do: the speed of its memory at one row, of its multipliers at sixteen.
//
// Contenders take turns, so that all see the same machine, and every call is timed by itself. Other programs only ever
// add time, so the fastest calls are compared; `noise` is the median over the fastest, 1 on a quiet machine, and
// `of_roofline_med` compares medians. Sixteen matrices take turns, so that weights come from memory, as in a model. The
// bf16 tier is held against the rate of bf16 dot products where the machine has them.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/convert.hpp>

#include "support/linear_rivals.hpp"

namespace {

using dflash::activation_type;
using dflash::dtype;
using dflash::index;

constexpr index k = 2048;
constexpr index n = 6144;
constexpr int matrices = 16;
constexpr int rounds = 30;
constexpr int threads = 2;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds of many calls.
class samples {
public:
    void add(double seconds) { values_.push_back(seconds); }
    [[nodiscard]] bool empty() const { return values_.empty(); }
    [[nodiscard]] double best() const { return *std::min_element(values_.begin(), values_.end()); }
    [[nodiscard]] double median() const {
        std::vector<double> sorted = values_;
        std::sort(sorted.begin(), sorted.end());
        return sorted[sorted.size() / 2];
    }

private:
    std::vector<double> values_;
};

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

void linear(benchmark::State& state, dtype type, index rows, bool with_eigen,
            activation_type activation = activation_type::f32) {
    const dflash::cpu::exact ops({.threads = threads, .activation = activation});
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
    double flop_of_probe = 0;
    samples exact_calls;
    samples reads;
    samples multiplications;
    samples eigen_by_rows;
    samples eigen_by_columns;
    for (auto _ : state) {
        for (int round = 0; round < rounds; ++round) {
            for (const auto& w : packed) {
                exact_calls.add(seconds_of([&] { ops.linear(input, w, output); }));
            }
            for (const auto& w : packed) {
                reads.add(seconds_of([&] { sink += rivals::read_all(w.data(), w.bytes(), threads); }));
            }
            for (int i = 0; i < matrices; ++i) {
                multiplications.add(seconds_of([&] {
                    flop_of_probe = ops.uses_bf16_dot() ? rivals::multiply_add_bf16(threads, sink)
                                                        : rivals::multiply_add(threads, sink);
                }));
            }
            for (int i = 0; i < (eigen ? matrices : 0); ++i) {
                eigen_by_rows.add(seconds_of([&] { eigen->run(i, true); }));
                eigen_by_columns.add(seconds_of([&] { eigen->run(i, false); }));
            }
        }
    }
    benchmark::DoNotOptimize(sink);
    benchmark::DoNotOptimize(y.data());

    const double time = exact_calls.best();
    const double flop = 2.0 * static_cast<double>(rows * k * n);
    const double memory_time = reads.best();
    const double compute_time = flop * multiplications.best() / flop_of_probe;
    const double median_roofline = (std::max)(reads.median(), flop * multiplications.median() / flop_of_probe);
    state.counters["ms"] = time * 1e3;
    state.counters["ms_med"] = exact_calls.median() * 1e3;
    state.counters["GB/s"] = static_cast<double>(packed[0].bytes()) / time * 1e-9;
    state.counters["GFLOP/s"] = flop / time * 1e-9;
    state.counters["of_read"] = memory_time / time;
    state.counters["of_peak"] = compute_time / time;
    state.counters["of_roofline"] = (std::max)(memory_time, compute_time) / time;
    state.counters["of_roofline_med"] = median_roofline / exact_calls.median();
    state.counters["noise"] = exact_calls.median() / time;
    state.counters["vs_eigen"] = eigen ? (std::min)(eigen_by_rows.best(), eigen_by_columns.best()) / time : 0.0;
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
void one_row_bf16_tier(benchmark::State& state) {
    linear(state, dtype::bf16, 1, false, activation_type::bf16);
}
void sixteen_rows_bf16_tier(benchmark::State& state) {
    linear(state, dtype::bf16, 16, false, activation_type::bf16);
}

// One iteration is all rounds; its own time says nothing.
BENCHMARK(one_row_f32)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(one_row_bf16)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(sixteen_rows_f32)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(sixteen_rows_bf16)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(one_row_bf16_tier)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(sixteen_rows_bf16_tier)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
