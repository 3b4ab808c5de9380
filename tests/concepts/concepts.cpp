// What each concept asks for and what it does not: minimal doubles satisfy it, one missing member breaks it.
#include <doctest/doctest.h>

#include <algorithm>

#include <dflash/concepts/acceptance.hpp>
#include <dflash/concepts/attention.hpp>
#include <dflash/concepts/block_policy.hpp>
#include <dflash/concepts/cache.hpp>
#include <dflash/concepts/drafter.hpp>
#include <dflash/concepts/model.hpp>
#include <dflash/concepts/observer.hpp>
#include <dflash/concepts/sampler.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/testing/conformance.hpp>
#include <support/minimal.hpp>
#include <support/toy_drafters.hpp>
#include <support/toy_samplers.hpp>

namespace dflash::test {

// ---- the least that satisfies
// ----------------------------------------------------------------------------------------

static_assert(kv_cache<minimal::cache> && kv_cache_check<minimal::cache>());
static_assert(target_model<minimal::model> && target_model_check<minimal::model>());
static_assert(!feature_target<minimal::model>);
static_assert(drafter_for<minimal::drafter, minimal::model> && drafter_check<minimal::drafter, minimal::model>());
static_assert(token_sampler<minimal::sampler> && !sequence_sampler<minimal::sampler>);
static_assert(acceptance_rule<minimal::rule, minimal::sampler, host_space>);
static_assert(!acceptance_rule<minimal::rule, greedy, host_space>);
static_assert(block_policy<minimal::policy>);
static_assert(sequence_sampler<order_sampler> && sequence_sampler<forbid_seen>);

// ---- one thing missing
// -----------------------------------------------------------------------------------------------

namespace {

struct no_crop {
    [[nodiscard]] index length() const;
    [[nodiscard]] index capacity() const;
};
struct no_capacity {
    [[nodiscard]] index length() const;
    void crop(index);
};
struct length_not_const {
    [[nodiscard]] index length();
    [[nodiscard]] index capacity() const;
    void crop(index);
};
struct immovable : minimal::rooted {
    [[nodiscard]] index length() const;
    [[nodiscard]] index capacity() const;
    void crop(index);
};
struct no_reserve {
    no_reserve(index, index, index, index);
    [[nodiscard]] index length() const;
    [[nodiscard]] index capacity() const;
    void crop(index);
    void extend(index);
    [[nodiscard]] contiguous_layer<float> layer(index, index) const;
};
struct makes_room : no_reserve {
    using no_reserve::no_reserve;
    void reserve(index);
};
struct made_without_capacity : makes_room {
    made_without_capacity(index, index, index);
};
static_assert(transformer_cache<contiguous_cache<float>> && transformer_cache<contiguous_cache<double>>);
static_assert(transformer_cache<poison_cache> && transformer_cache_check<makes_room>());
static_assert(kv_cache<no_reserve> && !transformer_cache<no_reserve> && !transformer_cache<made_without_capacity>);
static_assert(!transformer_cache<minimal::cache>);

static_assert(!kv_cache<no_crop> && !kv_cache<no_capacity> && !kv_cache<length_not_const> && !kv_cache<immovable>);

template <class Cache>
struct on_cache {
    using space = host_space;
    using cache_type = Cache;
    static constexpr determinism guarantee = determinism::cross_isa;
    [[nodiscard]] index vocab_size() const;
    [[nodiscard]] index max_positions() const;
    [[nodiscard]] Cache make_cache(index);
    void forward(std::span<const token_id>, Cache&, const forward_output<>&);
};
static_assert(target_model<on_cache<snapshot_cache<recurrent_law>>>);
static_assert(!target_model<on_cache<no_crop>>);  // R without snapshots is not a target
struct no_guarantee : on_cache<minimal::cache> {
private:
    using on_cache::guarantee;
};
struct makes_another_cache : on_cache<minimal::cache> {
    [[nodiscard]] int make_cache(index);
};
struct no_positions : on_cache<minimal::cache> {
private:
    using on_cache::max_positions;
};
static_assert(!target_model<no_guarantee> && !target_model<makes_another_cache> && !target_model<no_positions>);
static_assert(!target_model<int>);

struct listens : on_cache<minimal::cache> {
    [[nodiscard]] index hidden_size() const;
    [[nodiscard]] index feature_size() const;
    void embed(std::span<const token_id>, matrix_view<float>);
    void head(matrix_view<const float>, matrix_view<float>);
};
struct no_head : listens {
private:
    using listens::head;
};
static_assert(feature_target<listens> && feature_target_check<listens>() && !feature_target<no_head>);

struct pick_returns_int64 {
    [[nodiscard]] std::int64_t pick(std::span<const float>, index) const;
};
struct pick_not_const {
    [[nodiscard]] token_id pick(std::span<const float>, index);
};
struct fork_only : greedy {
    [[nodiscard]] fork_only fork() const;
};
static_assert(!token_sampler<pick_returns_int64> && !token_sampler<pick_not_const> && !sequence_sampler<fork_only>);
static_assert(token_sampler<fork_only>);

struct no_propose : scripted_drafter {
private:
    using scripted_drafter::propose;
};
struct no_reset : scripted_drafter {
private:
    using scripted_drafter::reset;
};
static_assert(drafter_for<scripted_drafter, model_t> && !drafter_for<no_propose, model_t> &&
              !drafter_for<no_reset, model_t>);

struct no_word_on_loss {
    [[nodiscard]] verdict accept(const accept_call<>&, const greedy&) const;
};
static_assert(!acceptance_rule<no_word_on_loss, greedy, host_space>);

struct silent_policy {
    [[nodiscard]] index max_block() const;
    [[nodiscard]] index next(index) const;
};
static_assert(!block_policy<silent_policy> && block_policy<fixed_block>);

// ---- ordered guarantees
// ------------------------------------------------------------------------------------------------

static_assert(determinism::none < determinism::run_to_run && determinism::run_to_run < determinism::batch_invariant &&
              determinism::batch_invariant < determinism::cross_isa);

}  // namespace

TEST_CASE("the loops need no more than the concepts") {
    minimal::model model(0);
    minimal::drafter drafter(0);
    index seen = 0;
    const std::vector<token_id> prompt{2};
    generation_limits limits;
    limits.max_new_tokens = 400;
    speculative_decoder decoder(model, drafter, minimal::policy(0), minimal::sampler(0), minimal::rule(0),
                                minimal::observer(&seen));
    serial_decoder serial(model, minimal::sampler(0), minimal::rule(0), minimal::observer(&seen));
    const std::vector<token_id> expected = serial.generate(prompt, limits).tokens;
    CHECK(expected.size() == 400);
    CHECK(seen == 400);
    for (int again = 0; again < 2; ++again) {
        const generation_result got = decoder.generate(prompt, limits);
        CHECK(got.tokens == expected);
        CHECK(got.stats.accepted > 0);
        CHECK(got.stats.accepted < got.stats.drafted);
    }
    CHECK(seen == 1200);
}

TEST_CASE("the conformance kits need no more than the concepts") {
    minimal::model model(0);
    minimal::drafter drafter(0);
    minimal::policy policy(0);
    const testing::report found[] = {
        testing::check_model_conformance(model), testing::check_drafter_conformance(drafter, model),
        testing::check_sampler_conformance(minimal::sampler(0), 11), testing::check_block_policy_conformance(policy)};
    for (const testing::report& r : found) {
        CHECK_MESSAGE(r.passed(), r.text());
    }
}

TEST_CASE("a mask's range of keys is the set of its visible keys") {
    for (const bool causal : {true, false}) {
        for (const index window : {0, 1, 2, 3, 6, 100}) {
            const mask_rule mask{causal, window};
            for (index query = 0; query < 12; ++query) {
                for (index length = 0; length < 14; ++length) {
                    const key_range keys = mask.keys(query, length);
                    for (index key = 0; key < length; ++key) {
                        CHECK((key >= keys.first && key < keys.last) == mask.visible(query, key));
                    }
                    CHECK(keys.last <= length);
                    CHECK(keys.first >= 0);
                }
            }
        }
    }
    // Context rows 0 .. 9, block at 10 .. 13, the query at 11.
    const auto keys = [](mask_rule mask) { return std::pair(mask.keys(11, 14).first, mask.keys(11, 14).last - 1); };
    CHECK(keys({.causal = false, .window = 0}) == std::pair<index, index>(0, 13));
    CHECK(keys({.causal = true, .window = 4}) == std::pair<index, index>(8, 11));
    CHECK(keys({.causal = false, .window = 4}) == std::pair<index, index>(8, 13));
    CHECK(keys({.causal = true, .window = 100}) == keys({.causal = true, .window = 0}));
}

TEST_CASE("a fixed block is what there is room for") {
    for (index block = 1; block < 20; ++block) {
        const fixed_block policy(block);
        for (index limit = 1; limit < 30; ++limit) {
            CHECK(policy.next(limit) == (std::min)(block, limit));
        }
        CHECK(policy.max_block() == block);
    }
    CHECK_THROWS_WITH_AS(fixed_block(0), "block_size: got 0, needs at least 1 (it counts the anchor)", config_error);
}

TEST_CASE("an event that nobody hears is not built") {
    index built = 0;
    const auto make = [&] {
        ++built;
        return round_event<>{};
    };
    no_observer nobody;
    notify<round_event<>>(nobody, make);
    CHECK(built == 0);
    struct tensor_listener {
        void operator()(const tensor_event<>&) const {}
    } other;
    notify<round_event<>>(other, make);
    CHECK(built == 0);
    index heard = 0;
    auto listener = [&](const round_event<>&) { ++heard; };
    notify<round_event<>>(listener, make);
    CHECK(built == 1);
    CHECK(heard == 1);
}

}  // namespace dflash::test
