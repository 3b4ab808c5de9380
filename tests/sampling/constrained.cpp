// Samplers with history: conformance, order of what a constraint hears, errors when nothing is left.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/sampling/constrained.hpp>
#include <dflash/sampling/penalties.hpp>
#include <dflash/testing/conformance.hpp>
#include <support/table_pair.hpp>

namespace dflash::test {

namespace {

/// Forbids everything once the text holds a token; before, the token that came last.
struct dead_end {
    token_id trigger = 0;
    token_id last = -1;
    bool dead = false;
    bool started = false;

    void start() { started = true; }
    void advance(token_id token) {
        last = token;
        dead = dead || (started && token == trigger);
    }
    void apply(std::span<float> logits) const {
        for (std::size_t i = 0; i < logits.size(); ++i) {
            if (dead || static_cast<token_id>(i) == last) {
                logits[i] = -numerics::infinity;
            }
        }
    }
};

/// Writes down what every copy has heard when it is asked.
struct listener {
    std::shared_ptr<std::vector<std::vector<token_id>>> asked = std::make_shared<std::vector<std::vector<token_id>>>();
    std::vector<token_id> heard;

    void start() { heard.push_back(-100); }
    void advance(token_id token) { heard.push_back(token); }
    void apply(std::span<float> /*logits*/) const { asked->push_back(heard); }
};

static_assert(token_constraint<penalties>);
static_assert(token_constraint<dead_end>);
static_assert(sequence_sampler<constrained<categorical<>, penalties>>);
static_assert(sequence_sampler<constrained<constrained<categorical<>, penalties>, dead_end>>);
static_assert(law_sampler<constrained<categorical<>, penalties>>);
static_assert(!sequence_sampler<categorical<>>);

using drafter = table_drafter<argmax_drafts>;

}  // namespace

TEST_CASE("constrained conforms, nested too") {
    const constrained paid(categorical<>{}, penalties({.repetition = 1.5F, .frequency = 0.5F}));
    testing::report found = testing::check_sampler_conformance(paid, 23);
    CHECK_MESSAGE(found.passed(), found.text());
    found = testing::check_sampler_conformance(constrained(paid, penalties({.presence = 2})), 23);
    CHECK_MESSAGE(found.passed(), found.text());
}

TEST_CASE("a constraint hears the prompt, the start, committed tokens and accepted drafts, nothing else") {
    const table_target model(5, 4);
    table_target target = model;
    for (const index block : {1, 2, 4, 7}) {
        const listener ear;
        constrained sampler(categorical<>({.temperature = 0.7F}), ear);
        drafter guesses(target, kinship::slot, true, {});
        speculative_decoder<table_target, drafter, decltype(sampler)> decoder(target, guesses, fixed_block(block),
                                                                              sampler);
        generation_limits limits;
        limits.max_new_tokens = 30;
        const std::vector<token_id> prompt = {1, 2, 3};
        const std::vector<token_id> said = decoder.generate(prompt, limits, noise_key{8}).tokens;
        std::vector<token_id> all = {1, 2, 3, -100};
        all.insert(all.end(), said.begin(), said.end());
        REQUIRE(said.size() == 30);
        for (const std::vector<token_id>& heard : *ear.asked) {
            REQUIRE(heard.size() <= all.size());
            CHECK(std::equal(heard.begin(), heard.end(), all.begin()));
        }
        CHECK(ear.asked->size() == 30);  // one question for each token: rows behind the end of a round are not asked
    }
}

TEST_CASE("where nothing is left, both ways of decoding deliver what came before and raise at the same position") {
    int met = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        table_target target(4, seed);
        constrained sampler(categorical<>{}, dead_end{.trigger = 2});
        generation_limits limits;
        limits.max_new_tokens = 12;
        const std::vector<token_id> prompt = {0, 2, 1};
        const auto run = [&](auto& decoder, std::vector<token_id>& tokens) {
            try {
                decoder.prime(prompt, limits, {seed});
                while (!decoder.step().empty()) {
                }
            } catch (const numeric_error& failure) {
                tokens.assign(decoder.account().generated().begin(), decoder.account().generated().end());
                return std::string(failure.what());
            }
            tokens.assign(decoder.account().generated().begin(), decoder.account().generated().end());
            return std::string();
        };
        serial_decoder<table_target, decltype(sampler)> serial(target, sampler);
        drafter guesses(target, kinship::twin, true, {});
        speculative_decoder<table_target, drafter, decltype(sampler)> speculative(target, guesses, fixed_block(5),
                                                                                  sampler);
        std::vector<token_id> alone;
        std::vector<token_id> together;
        const std::string serial_says = run(serial, alone);
        CHECK(run(speculative, together) == serial_says);
        CHECK(together == alone);
        if (!serial_says.empty()) {
            ++met;
            CHECK(serial_says == "sampler: no token is left for position " + std::to_string(3 + alone.size()) +
                                     ", every one of them is forbidden");
            CHECK(alone.back() == 2);
        }
    }
    CHECK(met > 20);
}

TEST_CASE("nothing left on the very first token, under rejection_sampling as well") {
    table_target target(4, 1);
    struct closed {
        void advance(token_id) {}
        void apply(std::span<float> logits) const { std::ranges::fill(logits, -numerics::infinity); }
    };
    constrained sampler(categorical<>{}, closed{});
    drafter guesses(target, kinship::slot, false, {});
    speculative_decoder<table_target, drafter, decltype(sampler), rejection_sampling<>> decoder(
        target, guesses, fixed_block(3), sampler);
    CHECK_THROWS_WITH_AS(decoder.generate(std::vector<token_id>{1}),
                         "sampler: no token is left for position 1, every one of them is forbidden", numeric_error);
}

}  // namespace dflash::test
