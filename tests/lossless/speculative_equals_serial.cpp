// The property of the mission through the whole loop: a random DFlash draft on a random target, greedy, any block, any
// thread count, any prefill split: the tokens and the bits of their rows are those of serial decoding. Then the
// controls: policies that are wrong in one way each must be caught by the very same check.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/testing/lossless.hpp>

#include "support/property.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using target = target_transformer<cpu::exact>;
using draft = draft_transformer<cpu::exact>;

/// The target with another cache around its own, to plant faults in crop.
template <class Cache>
class with_cache {
public:
    using space = host_space;
    using cache_type = Cache;
    static constexpr determinism guarantee = target::guarantee;

    explicit with_cache(target& model) : model_(&model) {}
    [[nodiscard]] index vocab_size() const { return model_->vocab_size(); }
    [[nodiscard]] index max_positions() const { return model_->max_positions(); }
    [[nodiscard]] index hidden_size() const { return model_->hidden_size(); }
    [[nodiscard]] index feature_size() const { return model_->feature_size(); }
    [[nodiscard]] Cache make_cache(index n) const { return Cache{model_->make_cache(n + 1)}; }
    void embed(std::span<const token_id> ids, matrix_view<float> out) { model_->embed(ids, out); }
    void head(matrix_view<const float> hidden, matrix_view<float> out) { model_->head(hidden, out); }
    void forward(std::span<const token_id> tokens, Cache& cache, const forward_output<>& out) {
        model_->forward(tokens, cache.inner, out);
    }

private:
    target* model_;
};

struct honest_cache {
    target::cache_type inner;
    [[nodiscard]] index length() const { return inner.length(); }
    [[nodiscard]] index capacity() const { return inner.capacity(); }
    void crop(index n) { inner.crop(n); }
};

struct crops_one_too_far : honest_cache {
    void crop(index n) { inner.crop(n > 0 ? n - 1 : 0); }
};

struct crops_one_too_few : honest_cache {
    void crop(index n) { inner.crop(n < inner.length() ? n + 1 : n); }
};

struct last_of_equals {
    [[nodiscard]] token_id pick(std::span<const float> logits, index) const {
        std::size_t best = 0;
        for (std::size_t i = 1; i < logits.size(); ++i) {
            best = logits[i] >= logits[best] ? i : best;
        }
        return static_cast<token_id>(best);
    }
};

/// Verification breaks ties the other way round.
struct reversed_ties : sample_and_match {
    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        return call.drafts.empty() ? sample_and_match::accept(call, sampler)
                                   : sample_and_match::accept(call, last_of_equals{});
    }
};

/// The first draft is taken on trust.
struct first_draft_unchecked : sample_and_match {
    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        if (call.drafts.empty()) {
            return sample_and_match::accept(call, sampler);
        }
        accept_call<> rest = call;
        rest.drafts = call.drafts.subspan(1);
        rest.logits = call.logits.rows(1, call.logits.rows() - 1);
        rest.position = call.position + 1;
        verdict outcome = sample_and_match::accept(rest, sampler);
        ++outcome.accepted;
        return outcome;
    }
};

/// One case; returns what differs. Model and Rule are the suspects.
template <class Model, class Rule>
std::optional<std::string> run_case(std::uint64_t seed, activation_type activation = activation_type::f32) {
    random_pair pair;
    make_random_pair(pair, seed);
    random_source random(seed ^ 0x5A5A5A5AU);
    const cpu::exact ops({.activation = activation});
    target big(pair.target, pair.target_tensors, pair.draft.taps, ops);
    draft small(pair.draft, pair.draft_tensors, ops);
    Model model(big);
    dflash_drafter<draft, Model> drafter(small, model);
    std::vector<std::vector<token_id>> prompts(2);
    for (std::vector<token_id>& prompt : prompts) {
        for (index i = random.between(1, 9); i > 0; --i) {
            prompt.push_back(static_cast<token_id>(random.between(0, pair.target.vocab_size - 1)));
        }
    }
    generation_limits limits;
    limits.max_new_tokens = random.between(1, 24);
    limits.prefill_chunk = random.between(1, 10);
    if (random.chance(50)) {
        limits.stop_tokens = {static_cast<token_id>(random.between(0, pair.target.vocab_size - 1))};
    }
    if (random.chance(20)) {
        limits.context_limit = random.between(9, 24);
    }
    big.backend().set_threads(static_cast<int>(random.between(1, 4)));
    small.backend().set_threads(static_cast<int>(random.between(1, 4)));
    const fixed_block block(random.between(1, 17));
    try {
        serial_decoder<target> oracle(big);
        for (const std::vector<token_id>& prompt : prompts) {
            const std::span<const std::vector<token_id>> one(&prompt, 1);
            const testing::lossless_report report =
                testing::verify_lossless(model, drafter, greedy{}, one, limits, block, {}, Rule{});
            if (!report.bit_equal()) {
                return "the report says different";
            }
            // The audit itself is held against decoding without any wrapper.
            speculative_decoder<Model, decltype(drafter), greedy, Rule> decoder(model, drafter, block);
            if (decoder.generate(prompt, limits).tokens != oracle.generate(prompt, limits).tokens) {
                return "tokens differ from the plain target's";
            }
        }
    } catch (const error& failure) {
        return failure.what();
    }
    return std::nullopt;
}

template <class Model, class Rule>
index failures(index count) {
    index failed = 0;
    for (index i = 0; i < count; ++i) {
        failed += run_case<Model, Rule>(first_seed() + static_cast<std::uint64_t>(i)) ? 1 : 0;
    }
    return failed;
}

}  // namespace

TEST_CASE("speculative decoding gives the tokens and the bits of serial decoding") {
    MESSAGE("first seed " << first_seed());
    for (index i = 0; i < cases(2000); ++i) {
        const std::uint64_t seed = first_seed() + 500000 + static_cast<std::uint64_t>(i);
        const auto difference = run_case<with_cache<honest_cache>, sample_and_match>(seed);
        INFO(replay(seed - 500000));
        REQUIRE_MESSAGE(!difference, difference.value_or(""));
    }
}

TEST_CASE("speculative decoding gives the tokens and the bits of serial decoding in the bf16 tier") {
    for (index i = 0; i < cases(500); ++i) {
        const std::uint64_t seed = first_seed() + 600000 + static_cast<std::uint64_t>(i);
        const auto difference = run_case<with_cache<honest_cache>, sample_and_match>(seed, activation_type::bf16);
        INFO(replay(seed - 600000));
        REQUIRE_MESSAGE(!difference, difference.value_or(""));
    }
}

TEST_CASE("controls: a policy that is wrong in one way is caught") {
    constexpr index count = 60;
    CHECK(failures<with_cache<honest_cache>, sample_and_match>(count) == 0);
    CHECK(failures<with_cache<crops_one_too_far>, sample_and_match>(count) > count / 2);
    CHECK(failures<with_cache<crops_one_too_few>, sample_and_match>(count) > count / 2);
    CHECK(failures<with_cache<honest_cache>, first_draft_unchecked>(count) > count / 2);
    CHECK(failures<with_cache<honest_cache>, reversed_ties>(count) > 0);
}

namespace {

/// Long stretches of plain decoding between blocks of any length.
class moody_block {
public:
    explicit moody_block(std::uint64_t seed) : random_(seed) {}
    [[nodiscard]] index max_block() const { return 9; }
    [[nodiscard]] index next(index limit) {
        if (plain_ > 0) {
            --plain_;
            return 1;
        }
        plain_ = random_.chance(50) ? 0 : random_.between(1, random_.chance(20) ? 300 : 40);
        return (std::min)(limit, random_.between(1, 9));
    }
    void record(const round_report&) {}

private:
    random_source random_;
    index plain_ = 0;
};

struct drafts_seen {
    index first = 0;
    std::vector<token_id> drafts;
};

struct draft_recorder {
    std::vector<drafts_seen>* seen;
    void operator()(const round_event<>& round) const {
        if (!round.drafts.empty()) {
            seen->push_back({round.first, {round.drafts.begin(), round.drafts.end()}});
        }
    }
};

}  // namespace

TEST_CASE("drafts depend on the text alone, not on how many rows waited for them") {
    index compared = 0;
    for (index i = 0; i < cases(15); ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        random_pair pair;
        make_random_pair(pair, seed);
        target big(pair.target, pair.target_tensors, pair.draft.taps);
        draft small(pair.draft, pair.draft_tensors);
        dflash_drafter drafter(small, big);
        std::vector<drafts_seen> seen;
        speculative_decoder<target, decltype(drafter), greedy, sample_and_match, moody_block, draft_recorder> decoder(
            big, drafter, moody_block(seed), {}, {}, draft_recorder{&seen});
        generation_limits limits;
        limits.max_new_tokens = 400;
        std::vector<token_id> text = {static_cast<token_id>(seed % 3), 1, 2};
        const std::vector<token_id> said = decoder.generate(text, limits).tokens;
        const std::size_t prompt = text.size();
        text.insert(text.end(), said.begin(), said.end());
        CHECK(said == serial_decoder<target>(big).generate(std::span(text).first(prompt), limits).tokens);
        for (const drafts_seen& round : seen) {
            // A drafter that hears of the whole text before the anchor in one go.
            dflash_drafter fresh(small, big);
            auto cache = big.make_cache(round.first);
            std::vector<float> features(static_cast<std::size_t>(round.first * big.feature_size()));
            const std::span<const token_id> before(text.data(), static_cast<std::size_t>(round.first - 1));
            const matrix_view<float> rows(features.data(), round.first - 1, big.feature_size());
            big.forward(before, cache, {{}, rows});
            fresh.commit(before, rows);
            std::vector<token_id> drafts(round.drafts.size());
            draft_output<> out{.tokens = drafts, .count = 0, .law = {}};
            fresh.propose({.committed = std::span<const token_id>(text).first(static_cast<std::size_t>(round.first)),
                           .block = size_of(std::span(drafts)) + 1,
                           .noise = {}},
                          out);
            CHECK_MESSAGE(drafts == round.drafts, replay(seed));
            ++compared;
        }
    }
    CHECK(compared > 7 * cases(15));
}

}  // namespace dflash::test
