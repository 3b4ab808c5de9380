// Broken decoders through the very suite that the library's decoder passes: every one of them must be caught.
#include <doctest/doctest.h>

#include <support/decoder_suite.hpp>
#include <support/faulty_decoder.hpp>

namespace dflash::test {

namespace {

/// The plain loop of the tests with one fault.
struct faulty_kit {
    fault f = fault::none;

    template <class Model, class Drafter, class Sampler>
    [[nodiscard]] auto make(Model& model, Drafter& drafter, index block, Sampler sampler) const {
        return faulty_decoder<Model, Drafter, Sampler>(f, model, drafter, block, std::move(sampler));
    }
};

/// Acceptance rules for the library's own loop that are wrong in one way.
struct wrong_rule {
    static constexpr bool lossless = true;  // it says so
    int kind = 0;

    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, Sampler& sampler) const {
        verdict v = sample_and_match{}.accept(call, sampler);
        const index drafts = size_of(call.drafts);
        if (v.bad_row >= 0) {
            if (kind == 1) {
                v = {.accepted = v.accepted, .next = 0, .bad_row = -1};
            }
        } else if (kind == 2 && v.accepted < drafts) {
            ++v.accepted;  // the draft that was rejected stands, the next token is the one meant for its place
        } else if (kind == 3 && v.accepted > 0) {
            v.next = sampler.pick(call.logits.row(v.accepted - 1), call.position + v.accepted);
        } else if (kind == 4 && drafts > 0) {
            v.next = sampler.pick(call.logits.row(drafts), call.position + v.accepted);
        } else if (kind == 5) {
            v.next = sampler.pick(call.logits.row(v.accepted), call.position);  // noise of the round's first position
        } else if (kind == 6 && v.accepted == drafts && drafts > 0) {
            --v.accepted;  // the bonus token takes the place of the last draft
        }
        return v;
    }
};

struct rule_kit {
    wrong_rule rule;

    template <class Model, class Drafter, class Sampler>
    [[nodiscard]] auto make(Model& model, Drafter& drafter, index block, Sampler sampler) const {
        return speculative_decoder<Model, Drafter, Sampler, wrong_rule>(model, drafter, fixed_block(block),
                                                                        std::move(sampler), rule);
    }
};

/// A target whose block forward differs from its one-row forward: in the tie rule's inputs, in what rows may see, or in
/// what crop leaves behind. It lies about its guarantee.
template <class Model>
class unstable {
public:
    using space = host_space;
    static constexpr determinism guarantee = determinism::cross_isa;

    struct cache_type {
        typename Model::cache_type inner;
        bool lazy = false;  ///< crop() moves the counter of one row only
        [[nodiscard]] index length() const { return inner.length(); }
        [[nodiscard]] index capacity() const { return inner.capacity(); }
        void crop(index n) { inner.crop(lazy && n > 0 && n + 1 < inner.length() ? n + 1 : n); }
    };

    unstable(Model& model, int kind) : model_(&model), kind_(kind) {}
    [[nodiscard]] index vocab_size() const { return model_->vocab_size(); }
    [[nodiscard]] index max_positions() const { return model_->max_positions(); }
    [[nodiscard]] index feature_size() const { return model_->feature_size(); }
    [[nodiscard]] cache_type make_cache(index n) const { return {model_->make_cache(n), kind_ == 3}; }
    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) {
        model_->forward(tokens, cache.inner, out);
        const index v = vocab_size();
        for (index r = 0; r < out.logits.rows() && size_of(tokens) > 1 && out.logits.rows() > 1; ++r) {
            if (kind_ == 1) {  // an ulp on the last id decides ties the other way
                out.logits(r, v - 1) = std::nextafter(out.logits(r, v - 1), 100.0F);
            }
            if (kind_ == 2 && r + 1 < out.logits.rows()) {  // a row sees its right neighbour
                out.logits(r, tokens[static_cast<std::size_t>(r) + 1]) += 2.0F;
            }
        }
        if (kind_ == 4 && !out.features.empty() && size_of(tokens) > 2) {  // the last rows' taps are not written
            std::ranges::fill(out.features.row(size_of(tokens) - 1), -1.0F);
        }
    }

private:
    Model* model_;
    int kind_;
};

template <class Model, class Drafter, class Sampler>
struct unstable_decoder {
    unstable<Model> model;
    speculative_decoder<unstable<Model>, Drafter, Sampler> inner;

    unstable_decoder(int kind, Model& m, Drafter& drafter, index block, Sampler sampler)
        : model(m, kind), inner(model, drafter, fixed_block(block), std::move(sampler)) {}
    unstable_decoder(const unstable_decoder&) = delete;
    unstable_decoder& operator=(const unstable_decoder&) = delete;

    void prime(std::span<const token_id> prompt, const generation_limits& limits) { inner.prime(prompt, limits); }
    round_view step() { return inner.step(); }
    template <class Callback = detail::ignore_rounds>
    generation_result generate(std::span<const token_id> p, const generation_limits& limits, Callback callback = {}) {
        return inner.generate(p, limits, callback);
    }
    [[nodiscard]] generation_result result() const { return inner.result(); }
    [[nodiscard]] const ledger& account() const { return inner.account(); }
    [[nodiscard]] const auto& cache() const { return inner.cache(); }
};

struct unstable_kit {
    int kind = 0;

    template <class Model, class Drafter, class Sampler>
    [[nodiscard]] auto make(Model& model, Drafter& drafter, index block, Sampler sampler) const {
        return unstable_decoder<Model, Drafter, Sampler>(kind, model, drafter, block, std::move(sampler));
    }
};

template <class Kit>
testing::report examine(Kit kit) {
    decoder_suite<Kit> suite(kit, true);
    return suite.everything();
}

}  // namespace

TEST_CASE("the plain loop without a fault passes the whole suite") {
    decoder_suite<faulty_kit> suite(faulty_kit{});
    suite.everything();
    CHECK_MESSAGE(suite.report().passed(), suite.report().text());
}

TEST_CASE("every fault of the loop is caught") {
    for (const fault f : every_fault) {
        CAPTURE(static_cast<int>(f));
        const testing::report found = examine(faulty_kit{f});
        CHECK_FALSE(found.passed());
    }
}

TEST_CASE("faults are found by the property that names them") {
    const auto broke = [](fault f, property p, void (decoder_suite<faulty_kit>::*part)()) {
        decoder_suite<faulty_kit> suite(faulty_kit{f});
        (suite.*part)();
        CAPTURE(static_cast<int>(f));
        CHECK_MESSAGE(suite.report().broke("decoder", static_cast<int>(p)), suite.report().text());
    };
    using suite = decoder_suite<faulty_kit>;
    broke(fault::crop_one_too_few, property::invariant, &suite::budgets);
    broke(fault::first_draft_unchecked, property::tokens, &suite::budgets);
    broke(fault::accepts_one_too_few, property::rounds, &suite::budgets);
    broke(fault::budget_per_round, property::tokens, &suite::budgets);
    broke(fault::stop_per_round, property::tokens, &suite::stops);
    broke(fault::sequence_per_round, property::tokens, &suite::stop_sequences);
    broke(fault::block_past_room, property::positions, &suite::budgets);
    broke(fault::features_one_late, property::drafter, &suite::budgets);
    broke(fault::features_of_rejected, property::drafter, &suite::budgets);
    broke(fault::drafter_told_bonus, property::invariant, &suite::budgets);
    broke(fault::cache_not_rolled_back, property::rollback, &suite::exceptions);
    broke(fault::drafter_not_rolled_back, property::rollback, &suite::exceptions);
    broke(fault::bad_rows_raise_at_once, property::not_finite, &suite::not_finite);
    broke(fault::bad_rows_ignored, property::not_finite, &suite::not_finite);
    broke(fault::history_of_drafts, property::history, &suite::history);
    broke(fault::history_not_forked, property::history, &suite::history);
    broke(fault::not_reset, property::reuse, &suite::reuse);
    broke(fault::stats_before_the_cut, property::statistics, &suite::stops);
}

TEST_CASE("wrong acceptance rules in the library's loop are caught") {
    CHECK(examine(rule_kit{{0}}).passed());
    for (int kind = 1; kind <= 6; ++kind) {
        CAPTURE(kind);
        CHECK_FALSE(examine(rule_kit{{kind}}).passed());
    }
}

TEST_CASE("targets and caches that break their axioms are caught") {
    CHECK(examine(unstable_kit{0}).passed());
    for (int kind = 1; kind <= 4; ++kind) {
        CAPTURE(kind);
        CHECK_FALSE(examine(unstable_kit{kind}).passed());
    }
}

}  // namespace dflash::test
