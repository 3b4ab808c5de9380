// What sampling costs beside the forward it follows: one row of 151,936 logits, as a share of the head product that
// made it (1 row, 1024 x 151,936 in bf16, all threads). Contenders take turns; medians of the rounds.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/numerics/convert.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/constrained.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/sampling/penalties.hpp>

namespace {

using dflash::index;
using dflash::token_id;

constexpr index vocab = 151936;
constexpr index hidden = 1024;
constexpr int rounds = 15;

/// Roughly normal numbers that do not depend on the library.
std::vector<float> normal(index size, float deviation) {
    std::vector<float> values(static_cast<std::size_t>(size));
    std::uint64_t state = 1;
    for (float& value : values) {
        float sum = 0;
        for (int i = 0; i < 4; ++i) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            sum += static_cast<float>(state >> 40) * 0x1p-24F;
        }
        value = (sum - 2.0F) * 1.7320508F * deviation;
    }
    return values;
}

struct contender {
    std::string name;
    std::function<void(index position)> work;
    std::vector<double> seconds;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void sampling_costs(benchmark::State& state) {
    const std::vector<float> rows = normal(2 * vocab, 2.5F);
    const std::span<const float> logits(rows.data(), vocab);
    std::vector<std::uint16_t> bits;
    for (const float w : normal(vocab * hidden, 0.03F)) {
        bits.push_back(dflash::numerics::to_bf16(w).bits);
    }
    const dflash::cpu::exact ops;
    const std::array parts = {
        dflash::tensor_view{dflash::dtype::bf16, reinterpret_cast<const std::byte*>(bits.data()), vocab, hidden}};
    const dflash::cpu::linear_weights head = ops.pack(parts);
    const std::vector<float> x = normal(hidden, 1.0F);
    std::vector<float> y(vocab);

    const auto sampler = [&](dflash::sampling_options options) {
        return [s = dflash::categorical<>(std::move(options)), logits](index position) {
            benchmark::DoNotOptimize(s.pick(logits, position));
        };
    };
    dflash::penalties paid({.repetition = 1.1F, .frequency = 0.1F});
    paid.start();
    for (token_id t = 0; t < 1000; ++t) {
        paid.advance(t * 97 % static_cast<token_id>(vocab));
    }
    dflash::sampled_drafts<> drafts;
    token_id draft = 0;
    dflash::draft_output<> drawn{.tokens = {&draft, 1}, .count = 0, .law = {}};
    drafts.choose(dflash::matrix_view<const float>(rows.data() + vocab, 1, vocab), 0, {}, drawn);
    const dflash::categorical<> plain;
    const dflash::rejection_sampling<> rule;

    std::vector<contender> all;
    all.push_back({"head", [&](index) { ops.linear({x.data(), 1, hidden}, head, {y.data(), 1, vocab}); }, {}});
    all.push_back({"greedy", [&](index p) { benchmark::DoNotOptimize(dflash::greedy{}.pick(logits, p)); }, {}});
    all.push_back({"T=1", sampler({}), {}});
    all.push_back({"T=0.7,top_k=50", sampler({.temperature = 0.7F, .top_k = 50}), {}});
    all.push_back({"T=0.7,top_p=0.9", sampler({.temperature = 0.7F, .top_p = 0.9F}), {}});
    all.push_back({"min_p=0.05", sampler({.min_p = 0.05F}), {}});
    all.push_back({"T=0.7,top_k=50,top_p=0.9,min_p=0.05",
                   sampler({.temperature = 0.7F, .top_k = 50, .top_p = 0.9F, .min_p = 0.05F}),
                   {}});
    all.push_back({"T=1,penalties",
                   [s = dflash::constrained(dflash::categorical<>{}, paid), logits](index p) {
                       benchmark::DoNotOptimize(s.pick(logits, p));
                   },
                   {}});
    all.push_back({"rejection,one draft",
                   [&](index p) {
                       benchmark::DoNotOptimize(rule.accept({.drafts = {&draft, 1},
                                                             .logits = {rows.data(), 2, vocab},
                                                             .draft_law = drawn.law,
                                                             .position = p,
                                                             .noise = {}},
                                                            plain));
                   },
                   {}});
    all.push_back({"logprobs,top 5",
                   [&](index) { benchmark::DoNotOptimize(dflash::log_probability_recorder::score(logits, 5, 5)); },
                   {}});
    for (auto _ : state) {
        for (int round = 0; round < rounds; ++round) {
            for (contender& c : all) {
                const auto start = std::chrono::steady_clock::now();
                c.work(round);
                c.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
            }
        }
    }
    const double head_seconds = median(all[0].seconds);
    state.counters["head ms"] = 1e3 * head_seconds;
    for (std::size_t i = 1; i < all.size(); ++i) {
        state.counters[all[i].name] = median(all[i].seconds) / head_seconds;
    }
}

BENCHMARK(sampling_costs)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
