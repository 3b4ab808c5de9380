// Attention of one layer of the standard work: rows behind a context, against a read of the same K and V and against
// the multipliers. Layers take turns, so that K and V come from memory.
#include <benchmark/benchmark.h>

#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/attention.hpp>

#include "support/dflash_engine.hpp"
#include "support/probes.hpp"
#include "support/statistics.hpp"

namespace {

using dflash::index;

constexpr int threads = 2;
constexpr index heads = 16;
constexpr index kv_heads = 8;
constexpr index head_dim = 128;

dflash::bench::memory_probe& memory() {
    static dflash::bench::memory_probe probe(threads);
    return probe;
}

const dflash::bench::compute_peaks& peaks() {
    static const dflash::bench::compute_peaks measured = dflash::bench::measure_peaks(threads);
    return measured;
}

void attention(benchmark::State& state) {
    const index context = state.range(0);
    const index rows = state.range(1);
    const double layer_bytes = 8.0 * static_cast<double>((context + rows) * kv_heads * head_dim);
    const auto layers = static_cast<index>(128e6 / layer_bytes) + 1;
    dflash::transformer_shape shape;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    const dflash::cpu::exact ops({threads, dflash::cpu::isa::automatic});
    const dflash::bench::cached_rows filler(shape);
    dflash::contiguous_cache<float> cache(layers, kv_heads, head_dim, context + rows);
    dflash::bench::fill_cache(cache, layers, context + rows, filler);
    std::vector<float> q;
    for (index i = 0; i < 2 * rows; ++i) {
        const std::span<const float> half = filler.key(3, i);
        q.insert(q.end(), half.begin(), half.end());
    }
    std::vector<float> out(q.size());

    std::vector<double> reads = {memory().bytes_per_second()};
    index layer = 0;
    for (auto _ : state) {
        ops.attend({.queries = {q.data(), rows, heads * head_dim},
                    .cache = cache.layer(layer, context + rows),
                    .out = {out.data(), rows, heads * head_dim},
                    .heads = heads,
                    .kv_heads = kv_heads,
                    .head_dim = head_dim,
                    .position = context,
                    .mask = {.causal = true, .window = 0},
                    .scale = dflash::numerics::attention_scale(head_dim)});
        layer = (layer + 1) % layers;
    }
    reads.push_back(memory().bytes_per_second());
    benchmark::DoNotOptimize(out.data());
    using counter = benchmark::Counter;
    const double calls = static_cast<double>(state.iterations());
    const double flop = 4.0 * static_cast<double>(rows * heads * head_dim) * static_cast<double>(context + rows / 2);
    // Rates over what the machine does: shares.
    state.counters["of_read"] = counter(calls * layer_bytes / dflash::bench::median(reads), counter::kIsRate);
    state.counters["of_fma"] = counter(calls * flop / peaks().fma, counter::kIsRate);
}

BENCHMARK(attention)
    ->ArgsProduct({{128, 768, 8192, 32768}, {1, 2, 4, 8, 16}})
    ->ArgNames({"context", "rows"})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
