// The operations between the products, for rows of the standard work: norms, rotation, silu. Their inputs are in
// caches, as in a step, so they are given in time and in elements per nanosecond.
#include <vector>

#include <benchmark/benchmark.h>

#include <dflash/cpu/exact.hpp>

namespace {

using dflash::index;

constexpr int threads = 2;
constexpr index hidden = 1024;
constexpr index head_dim = 128;
constexpr index q_cols = 2048;
constexpr index intermediate = 3072;

struct operands {
    dflash::cpu::exact ops{{threads, dflash::cpu::isa::automatic}};
    std::vector<float> x;
    std::vector<float> y;

    explicit operands(index elements) : x(static_cast<std::size_t>(elements)), y(x.size()) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = static_cast<float>(i % 251) * 0.01F - 1.25F;
        }
    }

    [[nodiscard]] dflash::matrix_view<float> in(index rows, index cols) { return {x.data(), rows, cols}; }
    [[nodiscard]] dflash::matrix_view<float> out(index rows, index cols) { return {y.data(), rows, cols}; }
};

dflash::cpu::vector_weights ones(const dflash::cpu::exact& ops, index size) {
    const std::vector<float> values(static_cast<std::size_t>(size), 1.0F);
    return ops.pack_vector({dflash::dtype::f32, reinterpret_cast<const std::byte*>(values.data()), 1, size});
}

void count(benchmark::State& state, index elements) {
    using counter = benchmark::Counter;
    state.counters["elements/ns"] = counter(static_cast<double>(elements) * 1e-9, counter::kIsIterationInvariantRate);
}

void rms_norm(benchmark::State& state) {
    const index rows = state.range(0);
    operands o(rows * hidden);
    const auto weights = ones(o.ops, hidden);
    for (auto _ : state) {
        o.ops.rms_norm(o.in(rows, hidden), weights, 1e-6F, o.out(rows, hidden));
    }
    count(state, rows * hidden);
}

void rms_norm_heads(benchmark::State& state) {
    const index rows = state.range(0);
    operands o(rows * q_cols);
    const auto weights = ones(o.ops, head_dim);
    for (auto _ : state) {
        o.ops.rms_norm_heads(o.in(rows, q_cols), weights, 1e-6F, head_dim);
    }
    count(state, rows * q_cols);
}

void rope(benchmark::State& state) {
    const index rows = state.range(0);
    operands o(rows * q_cols);
    dflash::numerics::rope_parameters parameters;
    parameters.theta = 1e6;
    const dflash::numerics::rope_table table(parameters, head_dim, 1024);
    for (auto _ : state) {
        o.ops.rope(o.in(rows, q_cols), head_dim, table, 768);
    }
    count(state, rows * q_cols);
}

void silu_mul(benchmark::State& state) {
    const index rows = state.range(0);
    operands o(rows * 2 * intermediate);
    for (auto _ : state) {
        o.ops.silu_mul(o.in(rows, 2 * intermediate), o.out(rows, intermediate));
    }
    count(state, rows * intermediate);
}

void add(benchmark::State& state) {
    const index rows = state.range(0);
    operands o(rows * hidden);
    for (auto _ : state) {
        o.ops.add(o.out(rows, hidden), o.in(rows, hidden));
    }
    count(state, rows * hidden);
}

BENCHMARK(rms_norm)->ArgName("rows")->Arg(1)->Arg(16)->UseRealTime();
BENCHMARK(rms_norm_heads)->ArgName("rows")->Arg(1)->Arg(16)->UseRealTime();
BENCHMARK(rope)->ArgName("rows")->Arg(1)->Arg(16)->UseRealTime();
BENCHMARK(silu_mul)->ArgName("rows")->Arg(1)->Arg(16)->UseRealTime();
BENCHMARK(add)->ArgName("rows")->Arg(1)->Arg(16)->UseRealTime();

}  // namespace
