// The property of the mission at any temperature: with one seed, any block size, any draft, any thread count and any
// prefill split give the very tokens of serial sampling, with every sampler option. Then the controls.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/sampling/constrained.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/sampling/penalties.hpp>
#include <dflash/testing/lossless.hpp>

#include "support/property.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using target = target_transformer<cpu::exact>;
using draft = draft_transformer<cpu::exact>;
using penalised = constrained<categorical<>, penalties>;

/// Any mix of options; most cases have several.
sampling_options some_options(random_source& random, index vocab) {
    const float temperatures[] = {0.0F, 0.3F, 0.7F, 1.0F, 1.0F, 2.5F};
    const float shares[] = {0.05F, 0.5F, 0.9F, 0.999F};
    sampling_options o;
    o.temperature = temperatures[random.between(0, 5)];
    o.top_k = random.chance(30) ? random.between(1, vocab + 3) : 0;
    o.top_p = random.chance(40) ? shares[random.between(0, 3)] : 1.0F;
    o.min_p = random.chance(30) ? shares[random.between(0, 1)] : 0.0F;
    for (index i = random.chance(30) ? random.between(1, 3) : 0; i > 0; --i) {
        const auto token = static_cast<token_id>(random.between(0, vocab - 1));
        const auto same = [token](const logit_bias& b) { return b.token == token; };
        if (std::none_of(o.biases.begin(), o.biases.end(), same)) {
            o.biases.push_back({token, random.chance(30) ? -numerics::infinity : 2.0F * random.normal()});
        }
    }
    return o;
}

/// Everything a case needs; the drafts are those of a random DFlash draft.
struct scene {
    explicit scene(std::uint64_t seed) : random(seed ^ 0xC0FFEEU) {
        make_random_pair(pair, seed);
        big.emplace(pair.target, pair.target_tensors, pair.draft.taps);
        small.emplace(pair.draft, pair.draft_tensors);
        const index vocab = pair.target.vocab_size;
        options = some_options(random, vocab);
        for (index i = random.between(1, 9); i > 0; --i) {
            prompt.push_back(static_cast<token_id>(random.between(0, vocab - 1)));
        }
        limits.max_new_tokens = random.between(1, 24);
        limits.prefill_chunk = random.between(1, 10);
        if (random.chance(40)) {
            limits.stop_tokens = {static_cast<token_id>(random.between(0, vocab - 1))};
        }
        if (random.chance(20)) {
            limits.stop_sequences = {{static_cast<token_id>(random.between(0, vocab - 1)),
                                      static_cast<token_id>(random.between(0, vocab - 1))}};
        }
        big->backend().set_threads(static_cast<int>(random.between(1, 4)));
        small->backend().set_threads(static_cast<int>(random.between(1, 4)));
        block = random.between(1, 17);
        noise.seed = random.chance(10) ? 0 : random.bits();
    }

    random_pair pair;
    random_source random;
    std::optional<target> big;
    std::optional<draft> small;
    sampling_options options;
    std::vector<token_id> prompt;
    generation_limits limits;
    index block = 1;
    noise_key noise;
};

struct totals {
    index tokens = 0;
    index accepted = 0;
};

/// One way of drafting with one sampler: tokens, bits and log-probabilities against serial decoding.
template <class Choice, class Sampler>
std::optional<std::string> compare(scene& s, Choice choice, const Sampler& sampler, totals* sum) {
    dflash_drafter<draft, target, no_observer, Choice> drafter(*s.small, *s.big, {}, std::move(choice));
    std::vector<scored_token> alone;
    std::vector<scored_token> together;
    serial_decoder<target, Sampler, sample_and_match, log_probability_recorder> serial(
        *s.big, sampler, {}, log_probability_recorder(&alone, 3));
    speculative_decoder<target, decltype(drafter), Sampler, sample_and_match, fixed_block, log_probability_recorder>
        speculative(*s.big, drafter, fixed_block(s.block), sampler, {}, log_probability_recorder(&together, 3));
    const generation_result expected = serial.generate(s.prompt, s.limits, s.noise);
    const generation_result got = speculative.generate(s.prompt, s.limits, s.noise);
    sum->tokens += static_cast<index>(expected.tokens.size());
    sum->accepted += got.stats.accepted;
    if (got.tokens != expected.tokens || got.reason != expected.reason) {
        return "tokens or reason differ";
    }
    if (alone != together || alone.size() != expected.tokens.size()) {
        return "log-probabilities differ";
    }
    for (std::size_t i = 0; i < alone.size(); ++i) {
        if (alone[i].chosen.token != expected.tokens[i] || alone[i].chosen.log_probability > 0) {
            return "log-probabilities of other tokens";
        }
    }
    return std::nullopt;
}

template <class Sampler>
std::optional<std::string> every_draft(std::uint64_t seed, const Sampler& sampler, totals* sum) {
    for (int kind = 0; kind < 3; ++kind) {
        scene s(seed);
        std::optional<std::string> wrong;
        if (kind == 0) {
            wrong = compare(s, argmax_drafts{}, sampler, sum);
        } else if (kind == 1) {
            wrong = compare(s, coupled_drafts<>(s.options), sampler, sum);
        } else {
            wrong = compare(s, sampled_drafts<>(s.options), sampler, sum);
        }
        if (wrong) {
            return *wrong + ", draft kind " + std::to_string(kind);
        }
    }
    return std::nullopt;
}

/// A history that also hears of drafts that were rejected: the rule feeds all of them.
struct tells_rejected : sample_and_match {
    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, Sampler& sampler) const {
        Sampler ahead = sampler.fork();
        for (std::size_t i = 1; i < call.drafts.size(); ++i) {
            ahead.advance(call.drafts[i]);
        }
        return sample_and_match::accept(call, ahead);
    }
};

/// Noise of the place in the block instead of the position in the text.
struct block_keyed : sample_and_match {
    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, Sampler& sampler) const {
        accept_call<> moved = call;
        moved.position = call.drafts.empty() ? call.position : 1;
        return sample_and_match::accept(moved, sampler);
    }
};

template <class Rule>
index differing(index runs) {
    index found = 0;
    for (std::uint64_t seed = 9000; seed < 9000 + static_cast<std::uint64_t>(runs); ++seed) {
        scene s(seed);
        s.options = {};
        s.limits = {};
        s.limits.max_new_tokens = 24;
        const penalised sampler(categorical<>(s.options), penalties({.repetition = 1.3F, .frequency = 1.0F}));
        dflash_drafter<draft, target, no_observer, coupled_drafts<>> drafter(*s.small, *s.big, {},
                                                                             coupled_drafts<>(s.options));
        serial_decoder<target, penalised> serial(*s.big, sampler);
        speculative_decoder<target, decltype(drafter), penalised, Rule> speculative(*s.big, drafter, fixed_block(6),
                                                                                    sampler);
        found += serial.generate(s.prompt, s.limits, s.noise).tokens !=
                         speculative.generate(s.prompt, s.limits, s.noise).tokens
                     ? 1
                     : 0;
    }
    return found;
}

}  // namespace

TEST_CASE("sampled speculative decoding gives the tokens of serial sampling") {
    totals sum;
    const index runs = cases(1000);
    for (index i = 0; i < runs; ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        const std::optional<std::string> wrong = every_draft(seed, categorical<>(scene(seed).options), &sum);
        CHECK_MESSAGE(!wrong, wrong.value_or("") << "; " << replay(seed));
        if (wrong) {
            break;
        }
    }
    CHECK(sum.tokens > runs);
    CHECK(sum.accepted > runs / 4);
}

TEST_CASE("with penalties, too") {
    totals sum;
    const index runs = cases(500);
    for (index i = 0; i < runs; ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        random_source random(seed ^ 0xFEEDU);
        const penalty_options costs{.repetition = random.chance(50) ? 1.4F : 0.8F,
                                    .frequency = random.chance(50) ? 0.6F : 0.0F,
                                    .presence = random.chance(50) ? -0.5F : 1.0F};
        const penalised sampler(categorical<>(scene(seed).options), penalties(costs));
        const std::optional<std::string> wrong = every_draft(seed, sampler, &sum);
        CHECK_MESSAGE(!wrong, wrong.value_or("") << "; " << replay(seed));
        if (wrong) {
            break;
        }
    }
    CHECK(sum.tokens > runs);
    CHECK(sum.accepted > runs / 4);
}

TEST_CASE("control: wrong rules give other tokens, the right one does not") {
    constexpr index runs = 20;
    CHECK(differing<sample_and_match>(runs) == 0);
    CHECK(differing<tells_rejected>(runs) > runs / 4);
    CHECK(differing<block_keyed>(runs) > runs / 2);
}

TEST_CASE("the seed decides, and nothing else does") {
    scene s(77);
    s.options = {.temperature = 1.5F};
    s.limits = {};
    s.limits.max_new_tokens = 40;
    serial_decoder<target, categorical<>> decoder(*s.big, categorical<>(s.options));
    const auto said = [&](std::uint64_t seed) { return decoder.generate(s.prompt, s.limits, noise_key{seed}).tokens; };
    const std::vector<token_id> zero = said(0);
    CHECK(said(1) != zero);
    CHECK(said(std::uint64_t{1} << 32) != zero);
    CHECK(said(0) == zero);  // nothing is left over from other seeds
}

namespace {

/// The text of a speculative decoder that draws with these options, drafts included.
template <class Rule, class Choice>
std::vector<token_id> text_of(scene& s, const sampling_options& options) {
    dflash_drafter<draft, target, no_observer, Choice> drafter(*s.small, *s.big, {}, Choice(options));
    speculative_decoder<target, decltype(drafter), categorical<>, Rule> decoder(*s.big, drafter, fixed_block(s.block),
                                                                                categorical<>(options));
    return decoder.generate(s.prompt, s.limits, s.noise).tokens;
}

}  // namespace

TEST_CASE("top_k = 1 gives the greedy text at any temperature, under both rules") {
    for (index i = 0; i < cases(60); ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        INFO(replay(seed));
        scene s(seed);
        const std::vector<token_id> greedy_text = serial_decoder<target>(*s.big).generate(s.prompt, s.limits).tokens;
        for (const float temperature : {1e-3F, 1.0F, 5.0F}) {
            const sampling_options one{.temperature = temperature, .top_k = 1};
            serial_decoder<target, categorical<>> serial(*s.big, categorical<>(one));
            CHECK(serial.generate(s.prompt, s.limits, s.noise).tokens == greedy_text);
            CHECK(text_of<sample_and_match, coupled_drafts<>>(s, one) == greedy_text);
            CHECK(text_of<sample_and_match, sampled_drafts<>>(s, one) == greedy_text);
            CHECK(text_of<rejection_sampling<>, sampled_drafts<>>(s, one) == greedy_text);
        }
    }
}

TEST_CASE("50 seeds give at least 45 texts, none of them that of the default key, whose seed is 0") {
    scene s(202);  // no row of its head drowns the others
    s.options = {.temperature = 1};
    s.limits = {};
    s.limits.max_new_tokens = 32;
    dflash_drafter<draft, target, no_observer, coupled_drafts<>> drafter(*s.small, *s.big, {},
                                                                         coupled_drafts<>(s.options));
    dflash_drafter<draft, target> other_drafter(*s.small, *s.big);
    serial_decoder<target, categorical<>> serial(*s.big, categorical<>(s.options));
    speculative_decoder<target, decltype(other_drafter), categorical<>> other(*s.big, other_drafter, fixed_block(3),
                                                                              categorical<>(s.options));
    const std::vector<token_id> of_default_key = serial.generate(s.prompt, s.limits).tokens;
    CHECK(serial.generate(s.prompt, s.limits, noise_key{}).tokens == of_default_key);
    std::set<std::vector<token_id>> texts;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const noise_key key{seed};
        const std::vector<token_id> text = serial.generate(s.prompt, s.limits, key).tokens;
        const noise_key other_key{seed + 1000};
        const std::vector<token_id> other_text = serial.generate(s.prompt, s.limits, other_key).tokens;
        texts.insert(text);
        CHECK(text != of_default_key);
        for (index block = 1; block <= 16; ++block) {
            INFO("seed " << seed << ", block " << block);
            speculative_decoder<target, decltype(drafter), categorical<>> decoder(*s.big, drafter, fixed_block(block),
                                                                                  categorical<>(s.options));
            other.prime(s.prompt, s.limits, other_key);
            const generation_result got =
                decoder.generate(s.prompt, s.limits, [&](const round_view&) { other.step(); }, key);
            CHECK(got.tokens == text);
            const std::vector<token_id> beside = other.result().tokens;
            CHECK(std::equal(beside.begin(), beside.end(), other_text.begin()));
        }
    }
    CHECK(texts.size() >= 45);
}

}  // namespace dflash::test
