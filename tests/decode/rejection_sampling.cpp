// The rule alone: conformance, equal laws, laws that do not fit, rows that cannot be used.
#include <doctest/doctest.h>

#include <vector>

#include <dflash/decode/acceptance.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/typical_acceptance.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/testing/conformance.hpp>

namespace dflash::test {

namespace {

struct block {
    std::vector<token_id> drafts;
    std::vector<float> logits;  // (n + 1, v)
    std::vector<float> law;     // (n, v)
    index vocab = 4;

    [[nodiscard]] accept_call<> call(bool with_law = true) const {
        const index n = size_of(std::span(drafts));
        return {.drafts = drafts,
                .logits = matrix_view<const float>(logits.data(), n + 1, vocab),
                .draft_law = with_law ? draft_law<>(matrix_view<const float>(law.data(), n, vocab)) : draft_law<>(),
                .position = 5,
                .noise = {3}};
    }
};

}  // namespace

TEST_CASE("rejection_sampling and typical_acceptance conform") {
    for (const sampling_options& options :
         {sampling_options{}, sampling_options{.temperature = 0.6F, .top_k = 6}, sampling_options{.temperature = 0}}) {
        const categorical<> sampler(options);
        testing::report found = testing::check_acceptance_conformance(rejection_sampling<>{}, sampler, 9);
        CHECK_MESSAGE(found.passed(), found.text());
        found = testing::check_acceptance_conformance(typical_acceptance{}, sampler, 9);
        CHECK_MESSAGE(found.passed(), found.text());
    }
}

TEST_CASE("equal laws: every draft stands, and nothing becomes NaN") {
    const categorical<> sampler;
    rejection_sampling<> rule;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        testing::dice die(seed);
        block b;
        for (int i = 0; i < 12; ++i) {
            b.logits.push_back(4.0F * die.fraction());
        }
        for (index i = 0; i < 2; ++i) {
            std::vector<float> scores(4);
            REQUIRE(
                sampler.scores(std::span<const float>(b.logits).subspan(static_cast<std::size_t>(4 * i), 4), scores));
            for (const float s : scores) {
                b.law.push_back(numerics::exp(s));
            }
            b.drafts.push_back(die.token(4));
        }
        const verdict v = rule.accept(b.call(), sampler);
        CHECK(v.accepted == 2);
        CHECK((v.next >= 0 && v.next < 4));
    }
}

TEST_CASE("opposite laws: no draft stands, the redraw is from p") {
    const categorical<> sampler;
    const block b{.drafts = {0}, .logits = {-200, 1, 1, -200, 0, 0, 0, 0}, .law = {1, 0, 0, 0}};
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        accept_call<> call = b.call();
        call.noise = {seed};
        const verdict v = rejection_sampling<>{}.accept(call, sampler);
        CHECK(v.accepted == 0);
        CHECK((v.next == 1 || v.next == 2));
    }
}

TEST_CASE("a draft outside the target's filters never stands") {
    const categorical<> sampler({.top_k = 1});
    const block b{.drafts = {2}, .logits = {0, 3, 2.9F, 0, 0, 0, 0, 0}, .law = {0, 0, 1, 0}};
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        accept_call<> call = b.call();
        call.noise = {seed};
        const verdict v = rejection_sampling<>{}.accept(call, sampler);
        CHECK(v.accepted == 0);
        CHECK(v.next == 1);
    }
}

TEST_CASE("laws that do not belong to the drafts are refused") {
    const categorical<> sampler;
    const rejection_sampling<> rule;
    block b{.drafts = {0, 1}, .logits = std::vector<float>(12, 0.0F), .law = std::vector<float>(8, 0.25F)};
    accept_call<> short_law = b.call();
    short_law.draft_law = matrix_view<const float>(b.law.data(), 1, 4);
    CHECK_THROWS_WITH_AS(static_cast<void>(rule.accept(short_law, sampler)),
                         "rejection_sampling: got 1 laws for 2 drafts", contract_error);
    b.law[0] = 0;
    CHECK_THROWS_AS(static_cast<void>(rule.accept(b.call(), sampler)), contract_error);
}

TEST_CASE("laws over another vocabulary are refused before anything is read or written") {
    const categorical<> sampler;
    const rejection_sampling<> rule;
    // The first draft never stands, so the law would be taken away from the target's.
    const block b{.drafts = {0, 1}, .logits = std::vector<float>(12, 0.0F), .law = {}};
    const std::vector<float> weights(20, 0.25F);
    const auto refuses = [&](const draft_law<>& law, const char* sentence) {
        accept_call<> call = b.call(false);
        call.draft_law = law;
        CHECK_THROWS_WITH_AS(static_cast<void>(rule.accept(call, sampler)), sentence, contract_error);
    };
    refuses(matrix_view<const float>(weights.data(), 2, 5),
            "rejection_sampling: got laws of 5 tokens, the target has 4");
    refuses(matrix_view<const float>(weights.data(), 2, 3),
            "rejection_sampling: got laws of 3 tokens, the target has 4");
    const std::vector<index> begins = {0, 2, 4};
    const auto sparse = [&](const std::vector<index>& starts, const std::vector<token_id>& tokens) {
        return sparse_rows{starts, tokens, std::span<const float>(weights).first(tokens.size())};
    };
    const std::vector<token_id> above = {0, 1, 1, 4};
    const std::vector<token_id> below = {-1, 0, 1, 2};
    const std::vector<token_id> few = {0, 1, 1};
    const std::vector<token_id> right = {0, 1, 1, 2};
    refuses(sparse(begins, above), "rejection_sampling: law 1 names token 4, the vocabulary is 0 .. 3");
    refuses(sparse(begins, below), "rejection_sampling: law 0 names token -1, the vocabulary is 0 .. 3");
    refuses(sparse(begins, few), "rejection_sampling: law 1 has entries 2 to 4, there are 3");
    const std::vector<index> backwards = {0, 2, 1};
    refuses(sparse(backwards, right), "rejection_sampling: law 1 has entries 2 to 1, there are 4");
    accept_call<> fits = b.call(false);
    fits.draft_law = sparse(begins, right);
    CHECK(rule.accept(fits, sampler).next >= 0);
}

TEST_CASE("all forbidden, or not finite: the row is named, drafts before it stand") {
    const float gone = -numerics::infinity;
    const categorical<> sampler({.biases = {{1, gone}, {2, gone}, {3, gone}}});
    // Only token 0 is left, so the draft 0 stands for certain; then the row is spoiled.
    block b{.drafts = {0}, .logits = {1, 1, 1, 1, 1, 1, 1, numerics::not_a_number}, .law = {1, 0, 0, 0}};
    verdict v = rejection_sampling<>{}.accept(b.call(), sampler);
    CHECK((v.accepted == 1 && v.bad_row == 1 && v.fault == row_fault::not_finite));
    const categorical<> closed({.biases = {{0, gone}, {1, gone}, {2, gone}, {3, gone}}});
    b.logits[7] = 1;
    v = rejection_sampling<>{}.accept(b.call(), closed);
    CHECK((v.accepted == 0 && v.bad_row == 0 && v.fault == row_fault::nothing_left));
    v = typical_acceptance{}.accept(b.call(), closed);
    CHECK((v.accepted == 0 && v.bad_row == 0 && v.fault == row_fault::nothing_left));
    v = sample_and_match{}.accept(b.call(), closed);
    CHECK((v.accepted == 0 && v.bad_row == 0 && v.fault == row_fault::nothing_left));
}

TEST_CASE("typical_acceptance keeps what is plausible and drops what is not") {
    const categorical<> sampler;
    // p = 1/4 each: H = ln 4, threshold min(0.09, 0.3 / 4) = 0.075.
    block flat{.drafts = {2}, .logits = std::vector<float>(8, 1.0F), .law = {}};
    CHECK(typical_acceptance{}.accept(flat.call(false), sampler).accepted == 1);
    CHECK(typical_acceptance({.epsilon = 1, .delta = 1}).accept(flat.call(false), sampler).accepted == 0);
    block sharp{.drafts = {2}, .logits = {9, 0, 0, 0, 1, 1, 1, 1}, .law = {}};
    CHECK(typical_acceptance{}.accept(sharp.call(false), sampler).accepted == 0);
    static_assert(!typical_acceptance::lossless);
}

}  // namespace dflash::test
