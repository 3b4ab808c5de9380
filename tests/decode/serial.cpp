// The serial decoder, which everything is compared with, against row-by-row forwards and plain cuts.
#include <doctest/doctest.h>

#include <dflash/decode/serial.hpp>
#include <support/decoder_suite.hpp>

namespace dflash::test {

namespace {

using ids = std::vector<token_id>;

template <class Sampler>
Sampler copy(const Sampler& sampler) {
    if constexpr (sequence_sampler<Sampler>) {
        return sampler.fork();
    } else {
        return sampler;
    }
}

template <class Model, class Sampler = greedy>
void agrees(const trial& t, const Sampler& sampler = Sampler()) {
    CAPTURE(t.text());
    Model plain;
    const script plan{
        .stream = serial_stream(plain, sampler, t.prompt, (std::min)(t.limits.max_new_tokens, index{40}) + 1),
        .kind = guess::nothing};
    const expectation expected = expect(t, plan);
    probe seen;
    instrumented<Model> model(Model(t.model_positions), seen);
    serial_decoder decoder(model, copy(sampler));
    ids delivered;
    const generation_result got = decoder.generate(t.prompt, t.limits, [&](const round_view& r) {
        CHECK(r.tokens.size() == 1);
        CHECK(decoder.cache().length() == decoder.account().committed() - 1);
        delivered.insert(delivered.end(), r.tokens.begin(), r.tokens.end());
    });
    CHECK(got.tokens == expected.tokens);
    CHECK(delivered == expected.tokens);
    CHECK(got.reason == expected.reason);
    CHECK(got.stats.acceptance_lengths == expected.lengths);
    CHECK(got.stats.tokens == static_cast<index>(expected.tokens.size()));
    const auto prompt = static_cast<index>(t.prompt.size());
    const index chunks = got.tokens.empty() ? 0 : (prompt + t.limits.prefill_chunk - 1) / t.limits.prefill_chunk;
    CHECK(seen.forwards == chunks + got.stats.rounds);
    CHECK(seen.highest <= (got.tokens.empty() ? -1 : prompt + static_cast<index>(got.tokens.size()) - 2));
}

}  // namespace

TEST_CASE("serial decoding is one row after the other, cut at the ends") {
    for (const ids& prompt : {ids{2}, ids{2, 4, 1}, ids{5, 5, 5, 0, 3, 9, 1}}) {
        for (index n = 0; n <= 14; ++n) {
            for (token_id stop = -1; stop < 11; ++stop) {
                trial t;
                t.prompt = prompt;
                t.block = 1;
                t.limits.max_new_tokens = n;
                t.limits.prefill_chunk = 1 + n % 5;
                if (stop >= 0) {
                    t.limits.stop_tokens = {stop};
                    t.limits.stop_sequences = {{stop, static_cast<token_id>((stop + 1) % 11)}, {1, stop}};
                }
                agrees<model_t>(t);
                agrees<model_r>(t);
                agrees<context_model>(t);
                t.limits.stop_tokens.clear();
                t.limits.context_limit = n + 7;
                agrees<model_t>(t);
                agrees<model_t, order_sampler>(t);
                agrees<model_t>(t, noisy_sampler{3});
            }
        }
    }
}

TEST_CASE("a serial step that raises changes nothing") {
    for (index call = 0; call < 10; ++call) {
        for (const bool late : {false, true}) {
            probe seen;
            instrumented<context_model> model(context_model(), seen);
            const ids stream = serial_stream(model, greedy{}, ids{2}, 14);
            serial_decoder decoder(model);
            generation_limits limits;
            limits.max_new_tokens = 12;
            decoder.prime(ids{2}, limits);
            seen.raise_at = seen.forwards + call;
            seen.raise_late = late;
            index raised = 0;
            for (bool on = true; on;) {
                const index committed = decoder.account().committed();
                try {
                    on = !decoder.step().empty();
                } catch (const injected_error&) {
                    ++raised;
                    CHECK(decoder.account().committed() == committed);
                    CHECK(decoder.cache().length() == committed - 1);
                }
            }
            CHECK(raised == 1);
            CHECK(decoder.result().tokens == ids(stream.begin() + 1, stream.begin() + 13));
        }
    }
}

TEST_CASE("serial decoding raises at the row that is not finite, and goes on when it is mended") {
    for (index at = 1; at <= 14; ++at) {
        probe seen;
        seen.bad = {at};
        instrumented<model_t> model(model_t(), seen);
        serial_decoder decoder(model);
        generation_limits limits;
        limits.max_new_tokens = 14;
        ids told;
        CHECK_THROWS_AS(
            decoder.generate(ids{2}, limits, [&](const round_view& r) { told.push_back(r.tokens.front()); }),
            numeric_error);
        CHECK(static_cast<index>(told.size()) == at - 1);
        seen.bad.clear();
        if (at > 1) {
            while (!decoder.step().empty()) {
            }
            CHECK(decoder.result().tokens == ids{7, 1, 6, 0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6});
        }
    }
}

TEST_CASE("a serial run may be cancelled") {
    model_t model;
    serial_decoder decoder(model);
    index calls = 0;
    const generation_result got = decoder.generate(ids{2}, {}, [&](const round_view&) { return ++calls < 4; });
    CHECK(got.tokens == ids{7, 1, 6, 0});
    CHECK(got.reason == finish_reason::cancelled);
    CHECK(name_of(got.reason) == "cancelled");
}

}  // namespace dflash::test
