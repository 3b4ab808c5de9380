// The kits for drafters, samplers, rules and block policies: sound ones pass, each broken axiom is reported.
#include <doctest/doctest.h>

#include <memory>

#include <dflash/decode/acceptance.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/testing/conformance.hpp>
#include <support/toy_drafters.hpp>
#include <support/toy_models.hpp>
#include <support/toy_samplers.hpp>

namespace dflash::test {

namespace {

// ---- drafters
// --------------------------------------------------------------------------------------------------------

enum class drafter_flaw {
    none,
    dice,  ///< never repeats itself: legal
    negative_id,
    id_too_large,
    too_many,
    writes_past_the_end,
    proposal_counts,     ///< propose() adds to the context
    commit_counts_once,  ///< commit() of m positions counts 1
    crop_does_nothing,
    crop_keeps_newest,  ///< what was cropped shines through
    reset_keeps,        ///< a former sequence shines through
    wrong_law,
    law_rules_out_the_draft,
    negative_weight,
    unsorted_law,
    honest_law,
    no_room,
};

/// Guesses from a hash of everything it was told, features included.
class flawed_drafter {
public:
    explicit flawed_drafter(drafter_flaw f, index width = 2) : flaw_(f), width_(width) {}
    [[nodiscard]] index feature_size() const { return width_; }
    [[nodiscard]] index context_length() const { return static_cast<index>(hashes_.size()) + extra_; }
    [[nodiscard]] index max_positions() const { return flaw_ == drafter_flaw::no_room ? 1 : 60; }
    void reserve(index) {}
    void propose(const draft_request& request, draft_output<>& out) {
        out.count = request.block - 1;
        const std::uint64_t hash =
            (hashes_.empty() ? 1 : hashes_.back()) + ghost_ + static_cast<std::uint64_t>(request.committed.back());
        for (index i = 0; i < out.count; ++i) {
            const std::uint64_t seed = flaw_ == drafter_flaw::dice ? ++calls_ : hash + static_cast<std::uint64_t>(i);
            out.tokens[static_cast<std::size_t>(i)] = testing::dice(seed).token(11);
        }
        if (flaw_ == drafter_flaw::negative_id && out.count > 0) {
            out.tokens[0] = -1;
        }
        if (flaw_ == drafter_flaw::id_too_large && out.count > 0) {
            out.tokens[0] = 13;
        }
        if (flaw_ == drafter_flaw::writes_past_the_end) {
            out.tokens.data()[out.count] = 3;
        }
        out.count += flaw_ == drafter_flaw::too_many ? 1 : 0;
        extra_ += flaw_ == drafter_flaw::proposal_counts ? 1 : 0;
        if (flaw_ == drafter_flaw::wrong_law) {
            out.law = matrix_view<float>(law_, 1, 5);
        }
        if (flaw_ == drafter_flaw::honest_law || flaw_ == drafter_flaw::negative_weight ||
            flaw_ == drafter_flaw::law_rules_out_the_draft) {
            rows_.assign(static_cast<std::size_t>(out.count * 13), 0.5F);
            for (index i = 0; i < out.count; ++i) {
                float* row = rows_.data() + i * 13;
                row[out.tokens[static_cast<std::size_t>(i)]] =
                    flaw_ == drafter_flaw::law_rules_out_the_draft ? 0.0F : 2.0F;
                row[12] = flaw_ == drafter_flaw::negative_weight ? -0.5F : row[12];
            }
            out.law = matrix_view<const float>(rows_.data(), out.count, 13);
        }
        if (flaw_ == drafter_flaw::unsorted_law) {
            begins_.assign(1, 0);
            entries_.clear();
            for (index i = 0; i < out.count; ++i) {
                entries_.push_back(out.tokens[static_cast<std::size_t>(i)]);
                entries_.push_back(0);
                begins_.push_back(2 * (i + 1));
            }
            rows_.assign(entries_.size(), 1.0F);
            out.law = sparse_rows{begins_, entries_, rows_};
        }
    }
    void commit(std::span<const token_id> tokens, matrix_view<const float> features) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            std::uint64_t h = (hashes_.empty() ? 1 : hashes_.back()) * 31 + static_cast<std::uint64_t>(tokens[i]);
            for (index c = 0; c < features.cols(); ++c) {
                h = h * 7 + static_cast<std::uint64_t>(features(static_cast<index>(i), c));
            }
            hashes_.push_back(h);
            if (flaw_ == drafter_flaw::commit_counts_once) {
                break;
            }
        }
    }
    void crop(index n) {
        if (flaw_ == drafter_flaw::crop_does_nothing && n > 0) {
            return;
        }
        if (flaw_ == drafter_flaw::crop_keeps_newest && n > 0 && !hashes_.empty()) {
            ghost_ = hashes_.back();
        }
        hashes_.resize(static_cast<std::size_t>((std::min)(n, static_cast<index>(hashes_.size()))));
    }
    void reset() {
        if (flaw_ == drafter_flaw::reset_keeps) {
            ghost_ = hashes_.empty() ? 0 : hashes_.back();
        } else {
            ghost_ = 0;
        }
        hashes_.clear();
        extra_ = 0;
    }

private:
    drafter_flaw flaw_;
    index width_;
    std::vector<std::uint64_t> hashes_;
    std::uint64_t ghost_ = 0;
    std::uint64_t calls_ = 0;
    index extra_ = 0;
    float law_[5] = {};
    std::vector<float> rows_;
    std::vector<index> begins_;
    std::vector<token_id> entries_;
};

testing::report examine(drafter_flaw f, index width = 2) {
    context_model model;
    flawed_drafter drafter(f, width);
    return testing::check_drafter_conformance(drafter, model);
}

// ---- samplers
// --------------------------------------------------------------------------------------------------------

/// Impure: a counter decides.
struct counting_sampler {
    mutable index picks = 0;
    [[nodiscard]] token_id pick(std::span<const float> logits, index) const {
        return static_cast<token_id>(++picks % size_of(logits));
    }
};

struct outside_sampler {
    [[nodiscard]] token_id pick(std::span<const float> logits, index) const {
        return static_cast<token_id>(logits.size());
    }
};

/// Its forks share one history.
struct shared_history {
    std::shared_ptr<index> told = std::make_shared<index>(0);
    [[nodiscard]] token_id pick(std::span<const float> logits, index) const {
        return static_cast<token_id>(*told % size_of(logits));
    }
    [[nodiscard]] shared_history fork() const { return *this; }
    void advance(token_id) const { ++*told; }
};

/// A fork starts again from nothing.
struct forgetful_history {
    index told = 0;
    [[nodiscard]] token_id pick(std::span<const float> logits, index) const {
        return static_cast<token_id>(told % size_of(logits));
    }
    [[nodiscard]] forgetful_history fork() const { return {told + 1}; }
    void advance(token_id token) { told += token; }
};

// ---- rules
// -----------------------------------------------------------------------------------------------------------

struct flawed_rule {
    static constexpr bool lossless = true;
    static constexpr bool same_tokens = true;
    int kind = 0;
    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        const index n = size_of(call.drafts);
        if (kind == 1) {  // looks at every row before it begins
            for (index r = 0; r <= n; ++r) {
                if (!numerics::all_finite(call.logits.row(r).data(), call.logits.cols())) {
                    return {.accepted = r, .next = 0, .bad_row = r};
                }
            }
        }
        verdict v = sample_and_match{}.accept(call, sampler);
        if (kind == 2 && v.bad_row < 0) {
            v.next = static_cast<token_id>(call.logits.cols());
        }
        if (kind == 3 && v.bad_row >= 0) {
            v = {.accepted = v.accepted, .next = 0, .bad_row = -1};
        }
        if (kind == 4 && v.bad_row < 0 && v.accepted < n) {
            v.next = sampler.pick(call.logits.row(v.accepted + 1), call.position + v.accepted);
        }
        if (kind == 5 && v.bad_row < 0 && n > 0 && v.accepted == 0) {
            v.accepted = 1;
        }
        return v;
    }
};

/// Promises the law, not the tokens; says nothing of same_tokens.
struct law_only {
    static constexpr bool lossless = true;
    bool biased = false;
    [[nodiscard]] verdict accept(const accept_call<>& call, const noisy_sampler& sampler) const {
        // Draws of its own keyed by noise: as lawful as the sampler's, but not the same tokens.
        const bool drafted = !call.drafts.empty();
        const noisy_sampler own{call.noise.seed * 2 + (drafted ? 1U : 0U)};
        verdict v = sample_and_match{}.accept(call, own);
        if (biased && drafted && v.bad_row < 0 && v.accepted == 0 && v.next != 0) {
            testing::dice die(call.noise.seed);
            v.next = die.below(8) == 0 ? 0 : v.next;
        }
        static_cast<void>(sampler);
        return v;
    }
};

// ---- block policies
// ----------------------------------------------------------------------------------------------------

struct flawed_policy {
    int kind = 0;
    index blocks = 8;
    [[nodiscard]] index max_block() const { return kind == 3 ? blocks : 8; }
    [[nodiscard]] index next(index limit) const {
        return kind == 1 ? 8 : kind == 2 ? 0 : kind == 4 ? limit : (std::min)(limit, index{8});
    }
    void record(const round_report&) { ++blocks; }
};

}  // namespace

TEST_CASE("drafters") {
    CHECK_MESSAGE(examine(drafter_flaw::none).passed(), examine(drafter_flaw::none).text());
    CHECK(examine(drafter_flaw::none, 0).passed());
    CHECK(examine(drafter_flaw::dice).passed());
    const auto broke = [](drafter_flaw f, int axiom) {
        const testing::report found = examine(f);
        CAPTURE(static_cast<int>(f));
        CHECK_MESSAGE(found.broke("drafter", axiom), found.text());
    };
    broke(drafter_flaw::negative_id, 1);
    broke(drafter_flaw::id_too_large, 1);
    broke(drafter_flaw::too_many, 2);
    broke(drafter_flaw::writes_past_the_end, 2);
    broke(drafter_flaw::proposal_counts, 2);
    broke(drafter_flaw::commit_counts_once, 3);
    broke(drafter_flaw::crop_does_nothing, 4);
    broke(drafter_flaw::crop_keeps_newest, 4);
    broke(drafter_flaw::reset_keeps, 4);
    broke(drafter_flaw::wrong_law, 5);
    broke(drafter_flaw::law_rules_out_the_draft, 5);
    broke(drafter_flaw::negative_weight, 5);
    broke(drafter_flaw::unsorted_law, 5);
    CHECK(examine(drafter_flaw::honest_law).passed());
    broke(drafter_flaw::no_room, 6);
    for (const guess kind : every_guess) {
        model_t model;
        scripted_drafter drafter({.stream = {}, .kind = kind}, 3);
        const testing::report found = testing::check_drafter_conformance(drafter, model);
        CHECK_MESSAGE(found.passed(), found.text());
    }
}

TEST_CASE("samplers") {
    for (const index vocab : {1, 2, 11, 37}) {
        CHECK(testing::check_sampler_conformance(greedy{}, vocab).passed());
        CHECK(testing::check_sampler_conformance(noisy_sampler{7}, vocab).passed());
        CHECK(testing::check_sampler_conformance(order_sampler{}, vocab).passed());
        CHECK(testing::check_sampler_conformance(forbid_seen{}, vocab).passed());
    }
    CHECK(testing::check_sampler_conformance(counting_sampler{}, 11).broke("token_sampler", 1));
    CHECK(testing::check_sampler_conformance(outside_sampler{}, 11).broke("token_sampler", 2));
    CHECK(testing::check_sampler_conformance(shared_history{}, 11).broke("sequence_sampler", 3));
    CHECK(testing::check_sampler_conformance(forgetful_history{}, 11).broke("sequence_sampler", 3));
}

TEST_CASE("acceptance rules") {
    const auto examine_rule = [](int kind) {
        return testing::check_acceptance_conformance(flawed_rule{kind}, noisy_sampler{3}, 11);
    };
    CHECK_MESSAGE(examine_rule(0).passed(), examine_rule(0).text());
    CHECK(examine_rule(1).broke("acceptance_rule", 1));
    CHECK(examine_rule(2).broke("acceptance_rule", 2));
    CHECK(examine_rule(3).broke("acceptance_rule", 3));
    CHECK(examine_rule(4).broke("acceptance_rule", 4));
    CHECK(examine_rule(5).broke("acceptance_rule", 4));
    const testing::report lawful = testing::check_acceptance_conformance(law_only{}, noisy_sampler{3}, 5);
    CHECK_MESSAGE(lawful.passed(), lawful.text());
    CHECK(testing::check_acceptance_conformance(law_only{true}, noisy_sampler{3}, 5).broke("acceptance_rule", 4));
}

TEST_CASE("block policies") {
    for (index block = 1; block <= 17; ++block) {
        fixed_block fixed(block);
        CHECK(testing::check_block_policy_conformance(fixed).passed());
    }
    const auto examine_policy = [](int kind) {
        flawed_policy policy{kind};
        return testing::check_block_policy_conformance(policy);
    };
    CHECK(examine_policy(0).passed());
    CHECK(examine_policy(1).broke("block_policy", 1));
    CHECK(examine_policy(2).broke("block_policy", 1));
    CHECK(examine_policy(3).broke("block_policy", 3));
    CHECK(examine_policy(4).broke("block_policy", 3));
}

TEST_CASE("what raises is a finding, not the end of the kit") {
    struct raising_sampler {
        [[nodiscard]] token_id pick(std::span<const float>, index) const { throw injected_error(); }
    };
    const testing::report found = testing::check_sampler_conformance(raising_sampler{}, 3);
    CHECK(found.broke("token_sampler", 0));
    CHECK(found.text() == "token_sampler axiom 0: a case raised: injected\n");
}

}  // namespace dflash::test
