// Long runs on small models: 20,000 rounds, sessions reused all the time, memory flat, text still serial; one sequence
// beyond 4096 positions; and a sliding window that wraps many times inside blocks.
#include <doctest/doctest.h>

#include <malloc.h>

#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/drafting.hpp>

#include "support/batched_equals_serial.hpp"
#include "support/property.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using target = target_transformer<cpu::exact>;
using draft = draft_transformer<cpu::exact>;
using drafter_type = dflash_drafter<draft, target>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool heap_is_plain = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool heap_is_plain = false;
#else
constexpr bool heap_is_plain = true;
#endif
#else
constexpr bool heap_is_plain = true;
#endif

std::size_t heap_in_use() {
    return mallinfo2().uordblks;
}

TEST_CASE("20,000 rounds: memory flat, rounds allocate nothing, text serial") {
    random_pair pair;
    make_random_pair(pair, 1234);
    target model(pair.target, pair.target_tensors, pair.draft.taps, cpu::exact({.threads = 1}));
    draft small(pair.draft, pair.draft_tensors, cpu::exact({.threads = 1}));
    drafter_type drafter(small, model);
    speculative_decoder<target, drafter_type> decoder(model, drafter, fixed_block(4));
    serial_decoder<target> oracle(model);
    generation_limits limits;
    limits.max_new_tokens = 400;
    index rounds = 0;
    std::size_t after_first = 0;
    for (token_id first = 0; rounds < cases(20000); first = (first + 1) % static_cast<token_id>(model.vocab_size())) {
        const std::vector<token_id> prompt = {first, 0, 1};
        decoder.prime(prompt, limits);
        const std::size_t before = heap_in_use();
        while (!decoder.step().empty()) {
            ++rounds;
        }
        if (heap_is_plain && after_first != 0) {  // the first sequence sizes the workspaces
            REQUIRE(heap_in_use() == before);
        }
        if (rounds % 7 == 0) {
            REQUIRE(decoder.result().tokens == oracle.generate(prompt, limits).tokens);
        }
        if (heap_is_plain && after_first == 0) {
            after_first = heap_in_use();
        }
    }
    if (heap_is_plain) {
        CHECK(heap_in_use() <= after_first + 4096);
    }
}

TEST_CASE("a sampled text beyond 4096 positions is the serial one, and drafts still stand there") {
    random_pair pair;
    make_random_pair(pair, 202);  // no row of its head drowns the others
    pair.target.max_positions = pair.draft.max_positions = 5000;
    REQUIRE(pair.draft.layers == 2);
    pair.draft.masks = {{.causal = true, .window = 2000}, {.causal = false, .window = 0}};
    target model(pair.target, pair.target_tensors, pair.draft.taps);
    draft small(pair.draft, pair.draft_tensors);
    const sampling_options options{.temperature = 1};
    dflash_drafter<draft, target, no_observer, coupled_drafts<>> drafter(small, model, {}, coupled_drafts<>(options));
    speculative_decoder<target, decltype(drafter), categorical<>> decoder(model, drafter, fixed_block(4),
                                                                          categorical<>(options));
    serial_decoder<target, categorical<>> oracle(model, categorical<>(options));
    generation_limits limits;
    limits.max_new_tokens = 4400;
    const std::vector<token_id> prompt = {0, 1, 2};
    constexpr noise_key key{64};
    index committed = size_of(std::span(prompt));
    index accepted = 0;
    const generation_result got = decoder.generate(
        prompt, limits,
        [&](const round_view& round) {
            committed += size_of(round.tokens);
            accepted += committed > 4096 ? round.accepted : 0;
        },
        key);
    CHECK(committed == 4403);
    CHECK(got.tokens == oracle.generate(prompt, limits, key).tokens);
    CHECK(accepted > 0);
}

TEST_CASE("a sliding window that wraps inside blocks gives what a forward from scratch gives") {
    for (index i = 0; i < cases(40); ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        random_pair pair;
        make_random_pair(pair, seed);
        for (mask_rule& mask : pair.target.masks) {
            mask.window = 6;
        }
        target model(pair.target, pair.target_tensors, pair.draft.taps);
        random_source random(seed);
        std::vector<token_id> tokens;
        for (index k = 0; k < 40; ++k) {
            tokens.push_back(static_cast<token_id>(random.between(0, model.vocab_size() - 1)));
        }
        trace whole;
        auto scratch = model.make_cache(40);
        run_forward(model, scratch, tokens, whole);
        // Blocks of 5 that begin at 5, 6 and 7 behind a window of 6, some of each block thrown away.
        for (const index start : {5, 6, 7}) {
            auto cache = model.make_cache(48);
            trace rows;
            run_forward(model, cache, std::span(tokens).first(static_cast<std::size_t>(start)), rows);
            for (index done = start; done < 36;) {
                const index kept = random.between(1, 5);
                std::vector<token_id> block(tokens.begin() + done, tokens.begin() + done + (std::min)(kept, 40 - done));
                block.resize(5, 0);
                trace round;
                run_forward(model, cache, block, round);
                for (index r = 0; r < (std::min)(kept, 40 - done); ++r) {
                    INFO(replay(seed) << ", position " << done + r);
                    REQUIRE(!first_difference("logits", whole.logits[static_cast<std::size_t>(done + r)],
                                              round.logits[static_cast<std::size_t>(r)], done + r));
                }
                done += (std::min)(kept, 40 - done);
                cache.crop(done);
            }
        }
    }
}

}  // namespace
}  // namespace dflash::test
