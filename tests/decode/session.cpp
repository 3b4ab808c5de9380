// What the shared parts of the loops promise to those who plug something in: errors, exceptions, observers, reuse.
#include <doctest/doctest.h>

#include <limits>
#include <optional>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <support/decoder_suite.hpp>

namespace dflash::test {

namespace {

using ids = std::vector<token_id>;

const ids after_2{7, 1, 6, 0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6};

ids stream_2() {
    ids out{2};
    out.insert(out.end(), after_2.begin(), after_2.end());
    return out;
}

generation_limits budget(index n) {
    generation_limits limits;
    limits.max_new_tokens = n;
    return limits;
}

/// Writes down every round, and raises at one of them.
struct diary {
    struct entry {
        index first;
        ids drafts;
        ids tokens;
        index rows;
        round_report report;
    };
    std::vector<entry>* entries;
    index raise_at = -1;

    void operator()(const round_event<>& e) {
        if (static_cast<index>(entries->size()) == raise_at) {
            raise_at = -1;
            throw injected_error();
        }
        for (std::size_t i = 0; i < e.tokens.size(); ++i) {  // the law of each committed token is in its row
            CHECK(e.logits(static_cast<index>(i), e.tokens[i]) == 1.0F);
        }
        entries->push_back({e.first,
                            {e.drafts.begin(), e.drafts.end()},
                            {e.tokens.begin(), e.tokens.end()},
                            e.logits.rows(),
                            e.report});
    }
};

/// A drafter whose answer is what the test says.
struct rogue {
    index count = 0;
    token_id token = 0;
    index context = 0;
    [[nodiscard]] index feature_size() const { return 0; }
    [[nodiscard]] index context_length() const { return context; }
    [[nodiscard]] index max_positions() const { return 1000; }
    void reserve(index) {}
    void propose(const draft_request&, draft_output<>& out) const {
        out.count = count;
        for (token_id& t : out.tokens) {
            t = token;
        }
    }
    void commit(std::span<const token_id> tokens, matrix_view<const float>) { context += size_of(tokens); }
    void crop(index n) { context = n; }
    void reset() { context = 0; }
};

struct wild_sampler {
    index at = 5;
    token_id answer = 11;
    [[nodiscard]] token_id pick(std::span<const float> logits, index position) const {
        return position == at ? answer : greedy{}.pick(logits, position);
    }
};

struct wild_rule {
    static constexpr bool lossless = true;
    verdict answer;
    index at = 3;
    [[nodiscard]] verdict accept(const accept_call<>& call, const greedy& sampler) const {
        return call.position == at ? answer : sample_and_match{}.accept(call, sampler);
    }
};

struct wild_policy {
    index answer = 4;
    [[nodiscard]] index max_block() const { return 4; }
    [[nodiscard]] index next(index) const { return answer; }
    void record(const round_report&) {}
};

/// Longer and longer blocks; what it chooses may not change the text.
struct growing_policy {
    index block = 1;
    std::vector<round_report>* seen = nullptr;
    [[nodiscard]] index max_block() const { return 6; }
    [[nodiscard]] index next(index limit) const { return (std::min)(block, limit); }
    void record(const round_report& report) {
        block = block == 6 ? 1 : block + 1;
        seen->push_back(report);
    }
};

/// An engine without an end: counts modulo 5, in a cache that grows as it goes.
struct endless_engine {
    struct cache_type {
        std::vector<token_id> seen;
        [[nodiscard]] index length() const { return size_of(std::span(seen)); }
        [[nodiscard]] index capacity() const { return (std::numeric_limits<index>::max)(); }
        void crop(index n) { seen.resize(static_cast<std::size_t>(n)); }
    };
    using space = host_space;
    static constexpr determinism guarantee = determinism::cross_isa;
    [[nodiscard]] index vocab_size() const { return 5; }
    [[nodiscard]] index max_positions() const { return (std::numeric_limits<index>::max)(); }
    [[nodiscard]] cache_type make_cache(index) const { return {}; }
    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) const {
        const index silent = size_of(tokens) - out.logits.rows();
        for (index i = 0; i < size_of(tokens); ++i) {
            cache.seen.push_back(tokens[static_cast<std::size_t>(i)]);
            for (index k = 0; k < 5 && i >= silent; ++k) {
                out.logits(i - silent, k) = k == (cache.seen.back() + 1) % 5 ? 1.0F : 0.0F;
            }
        }
    }
};

/// Its copies move as they are copied, and a copy raises when it is told to.
struct copying_sampler {
    countdown* copies;
    index history = 0;

    explicit copying_sampler(countdown* c) : copies(c) {}
    copying_sampler(const copying_sampler& other) : copies(other.copies), history(other.history) { copies->tick(); }
    copying_sampler& operator=(const copying_sampler&) = delete;
    ~copying_sampler() = default;

    [[nodiscard]] token_id pick(std::span<const float> logits, index /*position*/) const {
        return static_cast<token_id>((static_cast<index>(greedy{}.pick(logits, 0)) + history) % 11);
    }
    [[nodiscard]] copying_sampler fork() const { return *this; }
    void advance(token_id token) { history += token; }
};

scripted_drafter drafter_for_2(guess kind, index features = 3) {
    return scripted_drafter({.stream = stream_2(), .kind = kind}, features);
}

}  // namespace

TEST_CASE("an observer sees what was committed, in order, with the rows it came from") {
    model_t model;
    for (const guess kind : every_guess) {
        for (const index block : {1, 4, 16}) {
            auto drafter = drafter_for_2(kind);
            std::vector<diary::entry> entries;
            speculative_decoder decoder(model, drafter, fixed_block(block), greedy{}, sample_and_match{},
                                        diary{&entries});
            const generation_result got = decoder.generate(ids{2}, budget(14));
            ids told;
            for (const diary::entry& e : entries) {
                CHECK(e.first == 1 + static_cast<index>(told.size()));
                CHECK(e.rows == static_cast<index>(e.drafts.size()) + 1);
                if (e.first > 1) {
                    CHECK(e.report.committed == static_cast<index>(e.tokens.size()));
                    CHECK(e.report.drafted == static_cast<index>(e.drafts.size()));
                    CHECK(e.report.block == e.rows);
                }
                told.insert(told.end(), e.tokens.begin(), e.tokens.end());
            }
            CHECK(told == after_2);
            CHECK(got.tokens == after_2);
            CHECK(static_cast<index>(entries.size()) == got.stats.rounds + 1);
        }
    }
    std::vector<diary::entry> entries;
    serial_decoder serial(model, greedy{}, sample_and_match{}, diary{&entries});
    CHECK(serial.generate(ids{2}, budget(14)).tokens == after_2);
    CHECK(entries.size() == 14);
}

TEST_CASE("an observer that raises undoes the round") {
    model_t model;
    for (index at = 1; at < 4; ++at) {
        auto drafter = drafter_for_2(guess::random);
        std::vector<diary::entry> entries;
        speculative_decoder decoder(model, drafter, fixed_block(4), greedy{}, sample_and_match{}, diary{&entries, at});
        CHECK_THROWS_AS(decoder.generate(ids{2}, budget(14)), injected_error);
        CHECK(decoder.cache().length() == decoder.account().committed() - 1);
        CHECK(drafter.context_length() == decoder.account().committed() - 1);
        while (!decoder.step().empty()) {
        }
        CHECK(decoder.result().tokens == after_2);
    }
}

TEST_CASE("a callback that raises has been handed its tokens; the next step goes on") {
    model_t model;
    for (index at = 0; at < 5; ++at) {
        auto drafter = drafter_for_2(guess::wrong_at);
        speculative_decoder decoder(model, drafter, fixed_block(4));
        ids seen;
        index calls = 0;
        CHECK_THROWS_AS(decoder.generate(ids{2}, budget(14),
                                         [&](const round_view& r) {
                                             seen.insert(seen.end(), r.tokens.begin(), r.tokens.end());
                                             if (calls++ == at) {
                                                 throw injected_error();
                                             }
                                         }),
                        injected_error);
        for (round_view r = decoder.step(); !r.empty(); r = decoder.step()) {
            seen.insert(seen.end(), r.tokens.begin(), r.tokens.end());
        }
        CHECK(seen == after_2);
        CHECK(decoder.result().tokens == after_2);
        CHECK(decoder.result().reason == finish_reason::length);
        CHECK(decoder.generate(ids{2}, budget(14)).tokens == after_2);
    }
}

TEST_CASE("a sampler that raises, in pick or in advance, undoes the round") {
    model_t model;
    const ids stream = serial_stream(model, order_sampler{}, ids{2}, 20);
    const ids text(stream.begin() + 1, stream.begin() + 16);
    for (index at = 0; at < 25; ++at) {
        for (const bool in_pick : {true, false}) {
            for (const index block : {1, 4, 9}) {
                countdown picks;
                countdown advances;
                scripted_drafter drafter({.stream = stream, .kind = guess::random}, 3);
                speculative_decoder decoder(model, drafter, fixed_block(block), order_sampler(&picks, &advances));
                decoder.prime(ids{2}, budget(15));
                (in_pick ? picks : advances).left = at;
                index raised = 0;
                for (bool on = true; on;) {
                    const index committed = decoder.account().committed();
                    try {
                        on = !decoder.step().empty();
                    } catch (const injected_error&) {
                        ++raised;
                        CHECK(decoder.account().committed() == committed);
                        CHECK(decoder.cache().length() == committed - 1);
                        CHECK(drafter.context_length() == committed - 1);
                    }
                }
                CHECK(raised <= 1);
                CHECK((raised == 1 || at >= 14));
                CHECK(decoder.result().tokens == text);

                countdown serial_picks;
                countdown serial_advances;
                serial_decoder serial(model, order_sampler(&serial_picks, &serial_advances));
                serial.prime(ids{2}, budget(15));
                (in_pick ? serial_picks : serial_advances).left = at;
                for (bool on = true; on;) {
                    try {
                        on = !serial.step().empty();
                    } catch (const injected_error&) {
                        CHECK(serial.cache().length() == serial.account().committed() - 1);
                    }
                }
                CHECK(serial.result().tokens == text);
            }
        }
    }
}

TEST_CASE("a sampler whose copies raise cannot lose its history") {
    model_t model;
    countdown copies;
    const copying_sampler sampler(&copies);
    const ids stream = serial_stream(model, sampler, ids{2}, 20);
    const ids text(stream.begin() + 1, stream.begin() + 16);
    for (index at = 0; at < 40; ++at) {
        scripted_drafter drafter({.stream = stream, .kind = guess::random}, 3);
        copies.left = -1;
        speculative_decoder decoder(model, drafter, fixed_block(4), sampler);
        decoder.prime(ids{2}, budget(15));
        copies.left = at;
        for (bool on = true; on;) {
            const index committed = decoder.account().committed();
            try {
                on = !decoder.step().empty();
            } catch (const injected_error&) {
                CHECK(decoder.account().committed() == committed);
            }
        }
        copies.left = -1;
        CHECK(decoder.result().tokens == text);
    }
}

TEST_CASE("a drafter that listens is refused where the model does not speak its width") {
    model_t model;
    auto listens = drafter_for_2(guess::exact, 4);
    CHECK_THROWS_WITH_AS(speculative_decoder(model, listens, fixed_block(4)),
                         "drafter: feature_size is 4, the model gives 3", config_error);
    endless_engine silent;
    CHECK_THROWS_WITH_AS(speculative_decoder(silent, listens, fixed_block(4)),
                         "drafter: feature_size is 4, the model gives 0", config_error);
}

TEST_CASE("there is no cache before prime, and that is said") {
    model_t model;
    auto drafter = drafter_for_2(guess::exact);
    speculative_decoder decoder(model, drafter, fixed_block(4));
    CHECK_THROWS_WITH_AS(static_cast<void>(decoder.cache()), "cache: there is none before prime()", contract_error);
    serial_decoder serial(model);
    CHECK_THROWS_AS(static_cast<void>(serial.cache()), contract_error);
    CHECK(decoder.generate(ids{2}, budget(3)).tokens.size() == 3);
    CHECK(decoder.cache().length() == 3);
}

TEST_CASE("an engine without an end, and no budget to speak of") {
    endless_engine engine;
    scripted_drafter drafter({.stream = {2, 3, 4, 0, 1}, .vocab = 5});
    speculative_decoder decoder(engine, drafter, fixed_block(4));
    serial_decoder serial(engine);
    for (const index most : {(std::numeric_limits<index>::max)(), index{1} << 40}) {
        generation_limits limits = budget(most);
        limits.stop_tokens = {1};
        CHECK(decoder.generate(ids{2}, limits).tokens == ids{3, 4, 0, 1});
        CHECK(serial.generate(ids{2}, limits).tokens == ids{3, 4, 0, 1});
    }
}

TEST_CASE("prime that raises leaves a decoder that can be primed again") {
    for (index call = 0; call < 4; ++call) {
        for (const bool late : {false, true}) {
            probe seen;
            instrumented<model_t> model(model_t(), seen);
            scripted_drafter drafter({.stream = serial_stream(model, greedy{}, ids{2, 4, 1}, 20)}, 3);
            speculative_decoder decoder(model, drafter, fixed_block(4));
            generation_limits limits = budget(8);
            const ids text = decoder.generate(ids{2, 4, 1}, limits).tokens;
            CHECK(text == ids{6, 0, 5, 10, 4, 9, 3, 8});
            limits.prefill_chunk = 1;
            seen.raise_late = late;
            if (call < 3) {
                seen.raise_at = seen.forwards + call;
                CHECK_THROWS_AS(decoder.prime(ids{2, 4, 1}, limits), injected_error);
            } else {
                seen.bad = {3};
                CHECK_THROWS_WITH_AS(decoder.prime(ids{2, 4, 1}, limits),
                                     "logits: the row for position 3 holds NaN or infinity", numeric_error);
                seen.bad.clear();
            }
            CHECK_THROWS_AS(decoder.step(), contract_error);
            CHECK(decoder.generate(ids{2, 4, 1}, limits).tokens == text);
        }
    }
}

TEST_CASE("the account's own tokens may be the next prompt") {
    model_t model;
    scripted_drafter drafter({.stream = serial_stream(model, order_sampler{}, ids{2}, 30)}, 3);
    speculative_decoder decoder(model, drafter, fixed_block(4), order_sampler{});
    const ids first = decoder.generate(ids{2}, budget(9)).tokens;
    const ids second = decoder.generate(decoder.account().tokens(), decoder.account().limits()).tokens;
    ids both = first;
    both.insert(both.end(), second.begin(), second.end());
    serial_decoder serial(model, order_sampler{});
    CHECK(both == serial.generate(ids{2}, budget(18)).tokens);
}

TEST_CASE("what a drafter answers is looked at before it reaches the target") {
    model_t model;
    struct {
        index count;
        token_id token;
    } const bad[] = {{4, 1}, {-1, 1}, {3, 11}, {1, -1}};
    for (const auto& b : bad) {
        rogue drafter{.count = b.count, .token = b.token};
        speculative_decoder decoder(model, drafter, fixed_block(4));
        decoder.prime(ids{2}, budget(14));
        CHECK_THROWS_AS(decoder.step(), contract_error);
        CHECK(decoder.cache().length() == decoder.account().committed() - 1);
        drafter.count = 1;
        drafter.token = 6;
        while (!decoder.step().empty()) {
        }
        CHECK(decoder.result().tokens == after_2);
    }
}

TEST_CASE("what a sampler, a rule or a policy answers is looked at") {
    model_t model;
    for (const token_id answer : {11, -2, 1000000}) {
        auto drafter = drafter_for_2(guess::exact);
        speculative_decoder decoder(model, drafter, fixed_block(4), wild_sampler{.at = 5, .answer = answer});
        CHECK_THROWS_AS(decoder.generate(ids{2}, budget(14)), contract_error);
        CHECK(decoder.cache().length() == decoder.account().committed() - 1);
        serial_decoder serial(model, wild_sampler{.at = 5, .answer = answer});
        CHECK_THROWS_AS(serial.generate(ids{2}, budget(14)), contract_error);
        CHECK(serial.result().tokens == ids{7, 1, 6, 0});
    }
    const verdict bad[] = {{.accepted = 4, .next = 0},
                           {.accepted = -1, .next = 0},
                           {.accepted = 0, .next = 11},
                           {.accepted = 1, .next = 0, .bad_row = 2}};
    for (const verdict& v : bad) {
        auto drafter = drafter_for_2(guess::exact);
        speculative_decoder<model_t, scripted_drafter, greedy, wild_rule> decoder(model, drafter, fixed_block(4),
                                                                                  greedy{}, wild_rule{v, 2});
        CHECK_THROWS_AS(decoder.generate(ids{2}, budget(14)), contract_error);
        CHECK(decoder.cache().length() == decoder.account().committed() - 1);
    }
    for (const index answer : {0, -1, 5, 1000}) {
        auto drafter = drafter_for_2(guess::exact);
        speculative_decoder decoder(model, drafter, wild_policy{answer});
        CHECK_THROWS_AS(decoder.generate(ids{2}, budget(14)), contract_error);
    }
}

TEST_CASE("a policy that changes its mind does not change the text") {
    model_t model;
    for (const guess kind : every_guess) {
        std::vector<round_report> reports;
        auto drafter = drafter_for_2(kind);
        speculative_decoder decoder(model, drafter, growing_policy{1, &reports});
        const generation_result got = decoder.generate(ids{2}, budget(14));
        CHECK(got.tokens == after_2);
        CHECK(static_cast<index>(reports.size()) == got.stats.rounds);
    }
}

TEST_CASE("limits that make no sense are refused with the field's name") {
    model_t model(40);
    auto drafter = drafter_for_2(guess::exact);
    speculative_decoder decoder(model, drafter, fixed_block(4));
    serial_decoder serial(model);
    const auto refused = [&](const ids& prompt, const generation_limits& limits, const char* field) {
        CAPTURE(field);
        for (int way = 0; way < 2; ++way) {
            std::string message;
            try {
                way == 0 ? decoder.generate(prompt, limits) : serial.generate(prompt, limits);
            } catch (const config_error& e) {
                message = e.what();
            }
            CHECK(message.rfind(field, 0) == 0);
        }
        CHECK(decoder.generate(ids{2}, budget(4)).tokens == ids{7, 1, 6, 0});
    };
    refused({}, {}, "prompt");
    refused({2, 11}, {}, "prompt");
    refused({-1}, {}, "prompt");
    refused(ids(41, 1), {}, "prompt");
    refused({2}, budget(-1), "max_new_tokens");
    generation_limits limits;
    limits.stop_tokens = {3, 11};
    refused({2}, limits, "stop_tokens");
    limits = {};
    limits.stop_sequences = {{1}, {}};
    refused({2}, limits, "stop_sequences");
    limits.stop_sequences = {{1, -1}};
    refused({2}, limits, "stop_sequences");
    limits = {};
    limits.context_limit = -1;
    refused({2}, limits, "context_limit");
    limits.context_limit = 2;
    refused({2, 4, 1}, limits, "prompt");
    limits = {};
    limits.prefill_chunk = 0;
    refused({2}, limits, "prefill_chunk");
}

TEST_CASE("step needs prime, and cancel before it is forgotten") {
    model_t model;
    auto drafter = drafter_for_2(guess::exact);
    speculative_decoder decoder(model, drafter, fixed_block(4));
    CHECK_THROWS_AS(decoder.step(), contract_error);
    decoder.cancel();
    CHECK(decoder.generate(ids{2}, budget(14)).tokens == after_2);
    decoder.cancel();
    CHECK(decoder.result().reason == finish_reason::length);
    serial_decoder serial(model);
    CHECK_THROWS_AS(serial.step(), contract_error);
}

TEST_CASE("the greatest numbers are no trap") {
    model_t model(50);
    auto drafter = drafter_for_2(guess::exact);
    constexpr index most = (std::numeric_limits<index>::max)();
    speculative_decoder decoder(model, drafter, fixed_block(most));
    generation_limits limits = budget(most);
    limits.context_limit = most;
    limits.prefill_chunk = most;
    const generation_result got = decoder.generate(ids{2}, limits);
    CHECK(got.tokens.size() == 49);
    CHECK(got.reason == finish_reason::context);
    serial_decoder serial(model);
    CHECK(serial.generate(ids{2}, limits).tokens == got.tokens);
}

}  // namespace dflash::test
