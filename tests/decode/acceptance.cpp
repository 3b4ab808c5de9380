// The default acceptance rule on blocks of its own, and by its conformance kit.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <dflash/decode/acceptance.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/testing/acceptance.hpp>
#include <support/toy_samplers.hpp>

namespace dflash::test {

static_assert(sample_and_match::lossless && sample_and_match::same_tokens);
static_assert(acceptance_check<sample_and_match, greedy, host_space>());

TEST_CASE("sample-and-match keeps its axioms") {
    for (const index vocab : {2, 3, 11, 37}) {
        const testing::report plain = testing::check_acceptance_conformance(sample_and_match{}, greedy{}, vocab);
        CHECK_MESSAGE(plain.passed(), plain.text());
        const testing::report noisy =
            testing::check_acceptance_conformance(sample_and_match{}, noisy_sampler{5}, vocab);
        CHECK_MESSAGE(noisy.passed(), noisy.text());
        const testing::report history =
            testing::check_acceptance_conformance(sample_and_match{}, order_sampler{}, vocab);
        CHECK_MESSAGE(history.passed(), history.text());
    }
}

TEST_CASE("row i judges draft i, the row after the last accepted draft gives the next token") {
    const float rows[] = {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};  // 1, then 2, then 3
    const auto accept = [&rows](std::vector<token_id> drafts) {
        accept_call<> call;
        call.drafts = drafts;
        call.logits = {rows, static_cast<index>(drafts.size()) + 1, 4};
        return sample_and_match{}.accept(call, greedy{});
    };
    const auto is = [](const verdict& v, index accepted, token_id next) {
        return v.accepted == accepted && v.next == next && v.bad_row == -1;
    };
    CHECK(is(accept({}), 0, 1));
    CHECK(is(accept({1}), 1, 2));
    CHECK(is(accept({2}), 0, 1));
    CHECK(is(accept({1, 2}), 2, 3));
    CHECK(is(accept({1, 1}), 1, 2));
    CHECK(is(accept({2, 2}), 0, 1));
    CHECK(is(accept({0, 2}), 0, 1));
}

TEST_CASE("with fixed laws the acceptance is the overlap of a draw with a draw") {
    // p = (.1, .2, .3, .4), q = (.55, .25, .15, .05): drafts from q, draws from p; sum p q = 0.17, output p.
    const double p[] = {0.1, 0.2, 0.3, 0.4};
    const double q[] = {0.55, 0.25, 0.15, 0.05};
    struct drawn_from_p {
        const double* law;
        [[nodiscard]] token_id pick(std::span<const float>, index position) const {
            testing::dice die(static_cast<std::uint64_t>(position));
            double u = static_cast<double>(die.fraction());
            token_id t = 0;
            while (t < 3 && (u -= law[t]) >= 0) {
                ++t;
            }
            return t;
        }
    };
    const float zeros[8] = {};
    index counts[4] = {};
    index accepted = 0;
    constexpr index trials = 200000;
    testing::dice die(77);
    for (index i = 0; i < trials; ++i) {
        double u = static_cast<double>(die.fraction());
        token_id draft = 0;
        while (draft < 3 && (u -= q[draft]) >= 0) {
            ++draft;
        }
        accept_call<> call;
        call.drafts = {&draft, 1};
        call.logits = {zeros, 2, 4};
        call.position = 2 * i;
        const verdict v = sample_and_match{}.accept(call, drawn_from_p{p});
        accepted += v.accepted;
        ++counts[v.accepted > 0 ? draft : v.next];
    }
    const auto near = [](index count, double share) {
        const double n = static_cast<double>(trials);
        return std::fabs(static_cast<double>(count) - share * n) < 5.0 * std::sqrt(share * (1.0 - share) * n);
    };
    CHECK(near(accepted, 0.17));
    for (int k = 0; k < 4; ++k) {
        CHECK(near(counts[k], p[k]));
    }
}

}  // namespace dflash::test
