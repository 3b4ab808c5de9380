// Right answers worked out by hand for the toys T and R, one test for each kind of fault that people have reported.
#include <doctest/doctest.h>

#include <set>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <support/decoder_suite.hpp>

namespace dflash::test {

namespace {

using ids = std::vector<token_id>;

const ids after_2{7, 1, 6, 0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6};
const ids after_2_4_1{6, 0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6, 0, 5};
const ids after_5{5, 6, 10, 1, 8, 8};

ids first(const ids& tokens, index n) {
    return {tokens.begin(), tokens.begin() + n};
}

ids joined(const ids& a, const ids& b) {
    ids out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
}

/// T, a script on the text after [2], and a decoder.
struct bench {
    probe seen;
    instrumented<model_t> model;
    scripted_drafter drafter;
    speculative_decoder<instrumented<model_t>, scripted_drafter> decoder;

    explicit bench(guess kind, index block, index slot = 1, index max_positions = 1000)
        : model(model_t(max_positions), seen),
          drafter({.stream = joined({2}, joined(after_2, {0, 5, 10, 4, 9, 3, 8, 2})), .kind = kind, .slot = slot}, 3),
          decoder(model, drafter, fixed_block(block)) {}

    generation_result run(index n, ids stops = {}) {
        generation_limits limits;
        limits.max_new_tokens = n;
        limits.stop_tokens = std::move(stops);
        return decoder.generate(ids{2}, limits);
    }
};

generation_limits budget(index n) {
    generation_limits limits;
    limits.max_new_tokens = n;
    return limits;
}

}  // namespace

TEST_CASE("T and R continue as worked out by hand") {
    const model_t t;
    CHECK(serial_stream(t, greedy{}, ids{2}, 14 - 1) == joined({2}, after_2));
    CHECK(serial_stream(t, greedy{}, ids{2, 4, 1}, 14 - 1) == joined({2, 4, 1}, after_2_4_1));
    CHECK(serial_stream(t, greedy{}, ids{5}, 6 - 1) == joined({5}, after_5));
    const model_r r;
    CHECK(serial_stream(r, greedy{}, ids{2}, 14 - 1) == ids{2, 5, 10, 0, 3, 6, 10, 2, 4, 7, 0, 2, 8, 0, 4});
}

TEST_CASE("a token that equals the mask id is a token") {
    CHECK(bench(guess::exact, 4).run(10).tokens == first(after_2, 10));
    for (const guess kind : every_guess) {
        for (index block = 1; block <= 17; ++block) {
            CHECK(bench(kind, block).run(14).tokens == after_2);
        }
    }
}

TEST_CASE("a block of B asks for B - 1 drafts and verifies B rows") {
    for (const index block : {4, 16}) {
        bench b(guess::exact, block, 1, 1000);
        b.decoder.prime(ids{2}, budget(20));
        const round_view round = b.decoder.step();
        CHECK(round.drafted == block - 1);
        CHECK(size_of(round.tokens) == block);
        CHECK(b.seen.widest == block);
        CHECK(b.decoder.stats().mean_acceptance_length() == static_cast<double>(block));
        CHECK(b.decoder.stats().acceptance_ratio() == 1.0);
    }
    bench never(guess::never, 4);
    const generation_result got = never.run(9);
    CHECK(got.stats.mean_acceptance_length() == 1.0);
    CHECK(got.stats.acceptance_ratio() == 0.0);
}

TEST_CASE("the first draft is checked") {
    bench b(guess::exact, 2);
    scripted_drafter nine({.stream = {2, 7, 9}, .kind = guess::exact}, 0);
    speculative_decoder decoder(b.model, nine, fixed_block(2));
    decoder.prime(ids{2}, budget(10));
    const round_view round = decoder.step();
    CHECK(round.drafted == 1);
    CHECK(round.accepted == 0);
    CHECK(ids(round.tokens.begin(), round.tokens.end()) == ids{1});
    for (index block = 1; block <= 17; ++block) {
        CHECK(bench(guess::never, block).run(14).tokens == after_2);
    }
}

TEST_CASE("rollback after none, some and all drafts were accepted") {
    struct {
        guess kind;
        index slot;
        ids emitted;
        index cached;
    } const cases[] = {{guess::never, 0, {1}, 2}, {guess::wrong_at, 1, {1, 6}, 3}, {guess::exact, 0, {1, 6, 0, 5}, 5}};
    for (const auto& c : cases) {
        bench b(c.kind, 4, c.slot);
        b.decoder.prime(ids{2}, budget(10));
        CHECK(b.drafter.context_length() == 1);
        const round_view round = b.decoder.step();
        CHECK(ids(round.tokens.begin(), round.tokens.end()) == c.emitted);
        CHECK(b.decoder.cache().length() == c.cached);
        CHECK(b.drafter.context_length() == c.cached);
        CHECK(static_cast<index>(b.drafter.features.size()) == 3 * c.cached);
        CHECK(b.decoder.account().tokens().back() == c.emitted.back());
    }
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        trial t;
        t.kind = seed % 2 == 0 ? guess::random : guess::few;
        t.seed = seed;
        t.block = 1 + static_cast<index>(seed % 16);
        t.limits.max_new_tokens = 30;
        t.features = true;
        decoder_suite<library_kit> suite(library_kit{});
        suite.run<context_model>(t);
        REQUIRE_MESSAGE(suite.report().passed(), suite.report().text());
    }
}

TEST_CASE("state that cannot be truncated goes through snapshots") {
    const model_r model;
    model_r target;
    for (index block = 1; block <= 16; ++block) {
        scripted_drafter drafter({.stream = serial_stream(model, greedy{}, ids{2}, 20), .kind = guess::random});
        speculative_decoder decoder(target, drafter, fixed_block(block));
        CHECK(decoder.generate(ids{2}, budget(10)).tokens == ids{5, 10, 0, 3, 6, 10, 2, 4, 7, 0});
    }
}

TEST_CASE("a stop token ends the text wherever it falls in a block") {
    for (index k = 1; k <= 10; ++k) {
        for (index block = 1; block <= 16; ++block) {
            bench b(guess::exact, block);
            const generation_result got = b.run(14, {after_2[static_cast<std::size_t>(k - 1)]});
            CHECK(got.tokens == first(after_2, k));
            CHECK(got.reason == finish_reason::stop);
        }
    }
    bench at_once(guess::exact, 4);
    CHECK(at_once.run(14, {7}).tokens == ids{7});
    CHECK(at_once.seen.forwards == 1);
    CHECK(at_once.drafter.proposals == 0);
    const generation_result set = bench(guess::exact, 4).run(14, {4, 5});
    CHECK(set.tokens == first(after_2, 5));
    CHECK(name_of(set.reason) == "stop");
}

TEST_CASE("the budget is counted in tokens") {
    for (index n = 0; n <= 14; ++n) {
        for (index block = 1; block <= 16; ++block) {
            bench b(guess::exact, block);
            const generation_result got = b.run(n);
            CHECK(got.tokens == first(after_2, n));
            CHECK(got.reason == finish_reason::length);
            CHECK(b.seen.highest < 1 + n);
            CHECK((n > 0 || b.seen.forwards == 0));
        }
    }
}

TEST_CASE("the context limit is a hard end") {
    bench b(guess::exact, 8, 1, 12);
    const generation_result got = b.run(50);
    CHECK(got.tokens == first(after_2, 11));
    CHECK(got.reason == finish_reason::context);
    CHECK(name_of(got.reason) == "context");
    CHECK(b.seen.highest < 12);
    // A prompt that fills the context gives no token and runs nothing; one that is longer is refused.
    bench full(guess::exact, 8, 1, 12);
    const generation_result none = full.decoder.generate(ids(12, 3), budget(50));
    CHECK(none.tokens.empty());
    CHECK(none.reason == finish_reason::context);
    CHECK(full.seen.forwards == 0);
    CHECK_THROWS_AS(full.decoder.generate(ids(13, 3), budget(50)), config_error);
    CHECK(full.run(5).tokens == first(after_2, 5));
}

TEST_CASE("degenerate sizes") {
    for (index block = 1; block <= 16; ++block) {
        CHECK(bench(guess::exact, block).run(14).tokens == after_2);
        bench silent(guess::nothing, block);
        const generation_result got = silent.run(14);
        CHECK(got.tokens == after_2);
        CHECK(got.stats.rounds == 13);
        CHECK(got.stats.acceptance_ratio() == 0.0);
    }
    bench b(guess::exact, 1);
    CHECK_THROWS_AS(b.decoder.generate(ids{}, budget(3)), config_error);
    CHECK_THROWS_AS(fixed_block(0), config_error);
    CHECK_THROWS_AS(fixed_block(-1), config_error);
    const generation_result plain = b.run(5);
    CHECK(plain.stats.drafted == 0);
    CHECK(plain.stats.mean_acceptance_length() == 1.0);
    CHECK(b.run(0).stats.mean_acceptance_length() == 0.0);
    CHECK(b.run(1).stats.rounds == 0);
}

TEST_CASE("one decoder for many requests") {
    model_t model;
    for (const index block : {1, 3, 4, 16}) {
        scripted_drafter drafter({.stream = joined({2, 4, 1}, after_2_4_1), .kind = guess::random}, 3);
        speculative_decoder decoder(model, drafter, fixed_block(block));
        CHECK(decoder.generate(ids{2, 4, 1}, budget(8)).tokens == first(after_2_4_1, 8));
        CHECK(decoder.generate(ids{5}, budget(6)).tokens == after_5);
        CHECK(decoder.generate(ids{2, 4, 1}, budget(8)).tokens == first(after_2_4_1, 8));
        generation_limits stop = budget(8);
        stop.stop_tokens = {5};
        CHECK(decoder.generate(ids{2, 4, 1}, stop).tokens == ids{6, 0, 5});
        CHECK(decoder.generate(ids{2, 4, 1}, budget(8)).tokens == first(after_2_4_1, 8));

        scripted_drafter other_drafter({.stream = joined({5}, after_5), .kind = guess::exact}, 3);
        speculative_decoder other(model, other_drafter, fixed_block(block));
        for (int turn = 0; turn < 20; ++turn) {
            CHECK(decoder.generate(ids{2, 4, 1}, budget(8)).tokens == first(after_2_4_1, 8));
            CHECK(other.generate(ids{5}, budget(6)).tokens == after_5);
        }
    }
}

TEST_CASE("draws depend on the seed, not on blocks or on other sessions") {
    model_t model;
    std::set<ids> different;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const noisy_sampler sampler{seed};
        const ids stream = serial_stream(model, sampler, ids{2}, 32);
        const ids text(stream.begin() + 1, stream.begin() + 33);
        different.insert(text);
        for (index block = 1; block <= 16; block += seed % 10 == 0 ? 1 : 5) {
            scripted_drafter drafter({.stream = stream, .kind = guess::random, .seed = seed}, 3);
            scripted_drafter other_drafter({.stream = stream, .kind = guess::exact}, 3);
            speculative_decoder decoder(model, drafter, fixed_block(block), sampler);
            speculative_decoder other(model, other_drafter, fixed_block(3), noisy_sampler{seed + 1000});
            other.prime(ids{5}, budget(40));
            const generation_result got =
                decoder.generate(ids{2}, budget(32), [&](const round_view&) { other.step(); });
            CHECK(got.tokens == text);
        }
    }
    CHECK(different.size() >= 45);
}

TEST_CASE("a sampler that forbids what was said") {
    struct {
        ids prompt;
        ids text;
    } const cases[] = {{{2}, {7, 1, 6, 0, 5, 10, 4, 9, 3, 8, 0, 0, 0, 0}},
                       {{5}, {0, 2, 9, 1, 8, 3, 4, 6, 7, 10, 0, 0, 0, 0}},
                       {{2, 4, 1}, {6, 0, 5, 10, 3, 7, 8, 9, 0, 0, 0, 0, 0, 0}}};
    model_t model;
    for (const auto& c : cases) {
        serial_decoder serial(model, forbid_seen{});
        CHECK(serial.generate(c.prompt, budget(14)).tokens == c.text);
        for (index block = 1; block <= 17; ++block) {
            for (const guess kind : every_guess) {
                scripted_drafter drafter({.stream = joined(c.prompt, c.text), .kind = kind}, 3);
                speculative_decoder decoder(model, drafter, fixed_block(block), forbid_seen{});
                CHECK(decoder.generate(c.prompt, budget(14)).tokens == c.text);
                CHECK(decoder.generate(c.prompt, budget(14)).tokens == c.text);
            }
        }
    }
}

TEST_CASE("ties go to the lowest id in every greedy path") {
    struct {
        index width;
        ids maxima;
    } const cases[] = {{4, {1, 2}}, {37, {7, 8}}, {37, {15, 16}}, {37, {0, 36}}, {2, {0, 1}}};
    for (const auto& c : cases) {
        std::vector<float> rows(static_cast<std::size_t>(3 * c.width), c.width == 2 ? 0.0F : 0.5F);
        for (index r = 0; r < 3; ++r) {
            for (const token_id id : c.maxima) {
                rows[static_cast<std::size_t>(r * c.width + id)] = c.width == 2 ? (id == 0 ? -0.0F : 0.0F) : 5.0F;
            }
        }
        const token_id lowest = c.maxima.front();
        const greedy sampler;
        CHECK(sampler.pick(std::span<const float>(rows).first(static_cast<std::size_t>(c.width)), 0) == lowest);
        const ids drafts{lowest, lowest};
        accept_call<> call;
        call.drafts = drafts;
        call.logits = matrix_view<const float>(rows.data(), 3, c.width);
        const verdict both = sample_and_match{}.accept(call, sampler);
        CHECK(both.accepted == 2);
        CHECK(both.next == lowest);
        const ids highest{c.maxima.back(), lowest};
        call.drafts = highest;
        const verdict none = sample_and_match{}.accept(call, sampler);
        CHECK(none.accepted == 0);
        CHECK(none.next == lowest);
    }
}

TEST_CASE("a long run: memory flat, text still serial") {
    model_t model(200000);
    const index tokens = 60000;
    scripted_drafter drafter({.stream = serial_stream(model, greedy{}, ids{2}, tokens), .kind = guess::wrong_at}, 3);
    speculative_decoder decoder(model, drafter, fixed_block(4));
    decoder.prime(ids{2}, budget(tokens));
    const index capacity = decoder.cache().capacity();
    index rounds = 0;
    while (!decoder.step().empty()) {
        ++rounds;
    }
    const generation_result got = decoder.result();
    CHECK(rounds > 20000);
    CHECK(decoder.cache().capacity() == capacity);
    const ids text = serial_stream(model, greedy{}, ids{2}, tokens - 1);
    CHECK(got.tokens == ids(text.begin() + 1, text.end()));
    CHECK(got.stats.rounds == rounds);
}

}  // namespace dflash::test
