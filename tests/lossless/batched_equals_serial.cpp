// The property of the mission on random transformers: for any grouping of tokens into forwards, any thread count and
// any instruction set, every logit row, feature row and cached K and V row is what one token at a time gives.
#include "support/batched_equals_serial.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/cpu/reference.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support/broken_backends.hpp"
#include "support/property.hpp"

namespace dflash::test {
namespace {

std::vector<token_id> random_tokens(random_source& random, index count, index vocab) {
    std::vector<token_id> tokens;
    for (index i = 0; i < count; ++i) {
        tokens.push_back(static_cast<token_id>(random.between(0, vocab - 1)));
    }
    return tokens;
}

/// Instruction sets of this machine, the scalar one first.
std::vector<cpu::isa> instruction_sets() {
    std::vector<cpu::isa> sets;
    for (const cpu::isa set : {cpu::isa::scalar, cpu::isa::avx2, cpu::isa::avx512, cpu::isa::avx512_bf16,
                               cpu::isa::neon, cpu::isa::native}) {
        if (cpu::detail::find_kernels(set) != nullptr) {
            sets.push_back(set);
        }
    }
    return sets;
}

/// One case of the property for a backend that can be told threads and instruction set.
template <class Ops>
std::optional<std::string> run_case(std::uint64_t seed, index length, index most,
                                    activation_type activation = activation_type::f32) {
    random_pair pair;
    make_random_pair(pair, seed);
    random_source random(seed ^ 0xA5A5A5A5U);
    const std::vector<cpu::isa> sets = instruction_sets();
    const auto pick_set = [&] {
        return sets[static_cast<std::size_t>(random.between(0, size_of(std::span(sets)) - 1))];
    };
    target_transformer<Ops> one(pair.target, pair.target_tensors, pair.draft.taps,
                                Ops({.threads = 1, .force = pick_set(), .activation = activation}));
    target_transformer<Ops> many(pair.target, pair.target_tensors, pair.draft.taps,
                                 Ops({.threads = 1, .force = pick_set(), .activation = activation}));
    const std::vector<token_id> tokens = random_tokens(random, length, pair.target.vocab_size);
    return batched_differs_from_serial(one, many, tokens, most, random,
                                       [&] { many.backend().set_threads(static_cast<int>(random.between(1, 8))); });
}

/// How many of `count` cases a backend fails.
template <class Ops>
index failures(index count) {
    index failed = 0;
    for (index i = 0; i < count; ++i) {
        failed += run_case<Ops>(first_seed() + static_cast<std::uint64_t>(i), 24, 8) ? 1 : 0;
    }
    return failed;
}

}  // namespace

TEST_CASE("batched forwards give the bits of serial ones: blocks 1 to 17") {
    MESSAGE("first seed " << first_seed());
    for (index i = 0; i < cases(3000); ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        const auto difference = run_case<cpu::exact>(seed, 8 + static_cast<index>(seed % 29), 1 + i % 17);
        INFO(replay(seed));
        REQUIRE_MESSAGE(!difference, difference.value_or(""));
    }
}

TEST_CASE("batched forwards give the bits of serial ones: blocks on both sides of every threshold") {
    index i = 0;
    for (const index most : {2, 31, 32, 33, 63, 64, 65, 128, 200}) {
        for (index repeat = 0; repeat < 6; ++repeat) {
            const std::uint64_t seed = first_seed() + 100000 + static_cast<std::uint64_t>(i++);
            const auto difference = run_case<cpu::exact>(seed, 140, most);
            INFO(replay(seed));
            REQUIRE_MESSAGE(!difference, difference.value_or(""));
        }
    }
}

TEST_CASE("batched forwards give the bits of serial ones: contexts across every chunk edge") {
    index i = 0;
    for (const index length : {127, 128, 129, 255, 256, 257, 258, 511, 512, 513, 640}) {
        for (index repeat = 0; repeat < 4; ++repeat) {
            const std::uint64_t seed = first_seed() + 200000 + static_cast<std::uint64_t>(i++);
            const auto difference = run_case<cpu::exact>(seed, length, 17);
            INFO(replay(seed));
            REQUIRE_MESSAGE(!difference, difference.value_or(""));
        }
    }
}

TEST_CASE("batched forwards give the bits of serial ones in the bf16 tier") {
    for (index i = 0; i < cases(600); ++i) {
        const std::uint64_t seed = first_seed() + 400000 + static_cast<std::uint64_t>(i);
        const auto difference =
            run_case<cpu::exact>(seed, 8 + static_cast<index>(seed % 29), 1 + i % 17, activation_type::bf16);
        INFO(replay(seed - 400000));
        REQUIRE_MESSAGE(!difference, difference.value_or(""));
    }
    index i = 0;
    for (const index length : {129, 257, 300}) {
        for (const index most : {2, 17, 33, 65}) {
            const std::uint64_t seed = first_seed() + 450000 + static_cast<std::uint64_t>(i++);
            const auto difference = run_case<cpu::exact>(seed, length, most, activation_type::bf16);
            INFO(replay(seed));
            REQUIRE_MESSAGE(!difference, difference.value_or(""));
        }
    }
}

TEST_CASE("controls: the bf16 tier is another model, and only where weights are bf16") {
    index differing = 0;
    index with_bf16_weights = 0;
    for (index i = 0; i < 40; ++i) {
        const std::uint64_t seed = first_seed() + 400000 + static_cast<std::uint64_t>(i);
        random_pair pair;
        make_random_pair(pair, seed);
        random_source random(seed);
        target_transformer<cpu::exact> plain(pair.target, pair.target_tensors, pair.draft.taps);
        target_transformer<cpu::exact> tier(pair.target, pair.target_tensors, pair.draft.taps,
                                            cpu::exact({.activation = activation_type::bf16}));
        const std::vector<token_id> tokens = random_tokens(random, 24, pair.target.vocab_size);
        const bool differs = batched_differs_from_serial(plain, tier, tokens, 8, random, [] {}).has_value();
        const bool rounded = pair.target_tensors.embedding.type == dtype::bf16;
        CHECK((rounded || !differs));
        differing += differs ? 1 : 0;
        with_bf16_weights += rounded ? 1 : 0;
    }
    CHECK(with_bf16_weights > 0);
    CHECK(differing == with_bf16_weights);
    const auto failures_of_tier = [](auto run) {
        index failed = 0;
        for (std::uint64_t i = 0; i < 40; ++i) {
            failed += run(first_seed() + i) ? 1 : 0;
        }
        return failed;
    };
    CHECK(failures_of_tier(
              [](std::uint64_t seed) { return run_case<split_from_load>(seed, 24, 8, activation_type::bf16); }) > 20);
}

TEST_CASE("what is to the right of a row, or was cropped, cannot be seen") {
    for (index i = 0; i < 60; ++i) {
        const std::uint64_t seed = first_seed() + 300000 + static_cast<std::uint64_t>(i);
        random_pair pair;
        make_random_pair(pair, seed);
        random_source random(seed);
        target_transformer<cpu::exact> model(pair.target, pair.target_tensors, pair.draft.taps);
        const std::vector<token_id> left = random_tokens(random, 12, model.vocab_size());
        std::vector<token_id> a = left;
        std::vector<token_id> b = left;
        for (index k = 0; k < 5; ++k) {
            a.push_back(static_cast<token_id>(random.between(0, model.vocab_size() - 1)));
            b.push_back(static_cast<token_id>(random.between(0, model.vocab_size() - 1)));
        }
        trace first;
        trace second;
        auto cache_a = model.make_cache(32);
        auto cache_b = model.make_cache(32);
        run_forward(model, cache_a, a, first);
        run_forward(model, cache_b, b, second);
        for (std::size_t r = 0; r < left.size(); ++r) {
            INFO(replay(seed));
            REQUIRE(!first_difference("logits", first.logits[r], second.logits[r], static_cast<index>(r)));
        }
        cache_a.crop(12);
        cache_b.crop(12);
        CHECK(!first_difference("cached K/V", cached_rows(cache_a), cached_rows(cache_b), -1));
    }
}

TEST_CASE("controls: a backend that is wrong in one way is caught") {
    constexpr index count = 40;
    CHECK(failures<cpu::exact>(count) == 0);
    CHECK(failures<two_sided_mask>(count) > count / 2);
    CHECK(failures<queries_from_zero>(count) > count / 2);
    CHECK(failures<split_from_load>(count) > count / 2);
    CHECK(failures<planted_contraction>(count) > count / 2);
}

TEST_CASE("control: a backend on Eigen products is caught") {
    index failed = 0;
    constexpr index count = 40;
    for (index i = 0; i < count; ++i) {
        random_pair pair;
        make_random_pair(pair, first_seed() + static_cast<std::uint64_t>(i));
        random_source random(static_cast<std::uint64_t>(i));
        using eigen_model = target_transformer<cpu::reference<float>>;
        eigen_model one(pair.target, pair.target_tensors, pair.draft.taps);
        eigen_model many(pair.target, pair.target_tensors, pair.draft.taps);
        const std::vector<token_id> tokens = random_tokens(random, 24, pair.target.vocab_size);
        failed += batched_differs_from_serial(one, many, tokens, 8, random, [] {}) ? 1 : 0;
    }
    CHECK(failed > 0);
    MESSAGE("Eigen products: " << failed << " of " << count << " models differ between one row and a block");
}

}  // namespace dflash::test
