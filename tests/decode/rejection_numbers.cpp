// The numbers of rejection sampling: shares of accepted drafts, laws of redraws and of what is committed, worked out by
// hand, counted under the library's noise and walked branch by branch. Then equal laws, which leave nothing to redraw
// from.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <dflash/decode/acceptance.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/drafting.hpp>
#include <support/all_branches.hpp>

namespace dflash::test {

namespace {

constexpr index trials = 200000;

using row = std::vector<float>;
using counts = std::array<index, 4>;

row logits_of(std::span<const double> law) {
    row out;
    for (const double p : law) {
        out.push_back(static_cast<float>(std::log(p)));
    }
    return out;
}

row twice(const row& one) {
    row two = one;
    two.insert(two.end(), one.begin(), one.end());
    return two;
}

/// Outcomes by token. `next` of a trial is its redraw where the draft fell, its bonus where it stood.
struct tally {
    counts drafted{};
    counts accepted{};
    counts redrawn{};
    counts bonus{};

    [[nodiscard]] counts committed() const {
        counts out{};
        for (std::size_t t = 0; t < out.size(); ++t) {
            out[t] = accepted[t] + redrawn[t];
        }
        return out;
    }
};

index sum(const counts& c) {
    return c[0] + c[1] + c[2] + c[3];
}

/// Blocks of one draft from the law of `q`, each row of the target with the law of `p`.
template <class Choice>
tally count(const row& p, const row& q, Choice choice) {
    constexpr noise_key key{20260401};
    const rejection_sampling<> rule;
    categorical<> sampler;
    sampler.reseed(key);
    const row rows = twice(p);
    tally out;
    for (index i = 0; i < trials; ++i) {
        token_id draft = -1;
        draft_output<> proposed{.tokens = {&draft, 1}, .count = 0, .law = {}};
        choice.choose(matrix_view<const float>(q.data(), 1, 4), 2 * i, key, proposed);
        const verdict v = rule.accept({.drafts = {&draft, 1},
                                       .logits = matrix_view<const float>(rows.data(), 2, 4),
                                       .draft_law = proposed.law,
                                       .position = 2 * i,
                                       .noise = key},
                                      sampler);
        const auto drafted = static_cast<std::size_t>(draft);
        const auto next = static_cast<std::size_t>(v.next);
        ++out.drafted[drafted];
        out.accepted[drafted] += v.accepted;
        ++(v.accepted > 0 ? out.bonus : out.redrawn)[next];
    }
    return out;
}

/// Within four standard deviations of the expected count, and exact where chance has no part. The noise is fixed, so
/// this holds always or never.
bool near(index count, index of, double share) {
    const auto n = static_cast<double>(of);
    return std::fabs(static_cast<double>(count) - share * n) <= 4 * std::sqrt(share * (1 - share) * n);
}

void check_law(const char* what, const counts& got, const std::array<double, 4>& law) {
    for (std::size_t t = 0; t < law.size(); ++t) {
        INFO(std::string(what) << ", token " << t << ": " << got[t] << " of " << sum(got) << ", expected share "
                               << law[t]);
        CHECK(near(got[t], sum(got), law[t]));
    }
}

constexpr std::array<double, 4> p_law = {0.1, 0.2, 0.3, 0.4};
constexpr std::array<double, 4> q_law = {0.55, 0.25, 0.15, 0.05};

}  // namespace

TEST_CASE("200,000 drawn drafts: half of them stand, redraws follow (0, 0, .3, .7), the output follows p") {
    const row p = logits_of(p_law);
    const row q = logits_of(q_law);
    for (const index top_k : {0, 4}) {  // laws of all tokens, dense and sparse
        CAPTURE(top_k);
        const tally got = count(p, q, sampled_drafts<>({.top_k = top_k}));
        check_law("drafts", got.drafted, q_law);
        CHECK(near(sum(got.accepted), trials, 0.5));  // the sum of min(p, q)
        check_law("accepted", got.accepted, {0.2, 0.4, 0.3, 0.1});
        CHECK(near(got.accepted[0], got.drafted[0], 0.1 / 0.55));
        CHECK(near(got.accepted[1], got.drafted[1], 0.2 / 0.25));
        CHECK(got.accepted[2] == got.drafted[2]);
        CHECK(got.accepted[3] == got.drafted[3]);
        check_law("redraws", got.redrawn, {0, 0, 0.3, 0.7});
        check_law("output", got.committed(), p_law);
        check_law("bonus", got.bonus, p_law);
    }
}

TEST_CASE("200,000 times a draft that was not drawn: it stands with probability p, the output follows p") {
    const tally got = count(logits_of(p_law), logits_of(q_law), argmax_drafts{});
    REQUIRE(got.drafted[0] == trials);
    CHECK(near(got.accepted[0], trials, 0.1));
    check_law("redraws", got.redrawn, {0, 2.0 / 9, 3.0 / 9, 4.0 / 9});
    check_law("output", got.committed(), p_law);
    check_law("bonus", got.bonus, p_law);
}

// ---- temperature and filters on both laws ----

namespace {

/// The exact law of the first committed token, and how often it was the draft.
struct first_token {
    std::array<double, 3> law{};
    double accepted = 0;
};

template <class Rule, class Choice>
first_token walk(all_branches& tree, const row& p, const row& q, const sampling_options& options, const Rule& rule,
                 Choice choice) {
    const row rows = twice(p);
    const categorical<branching_noise> sampler(options, {&tree});
    first_token out;
    std::size_t committed = 0;
    bool stood = false;
    tree.walk(
        [&] {
            token_id draft = -1;
            draft_output<> proposed{.tokens = {&draft, 1}, .count = 0, .law = {}};
            choice.choose(matrix_view<const float>(q.data(), 1, 3), 7, {}, proposed);
            const verdict v = rule.accept({.drafts = {&draft, 1},
                                           .logits = matrix_view<const float>(rows.data(), 2, 3),
                                           .draft_law = proposed.law,
                                           .position = 7,
                                           .noise = {}},
                                          sampler);
            stood = v.accepted > 0;
            committed = static_cast<std::size_t>(stood ? draft : v.next);
        },
        [&](double probability) {
            out.law.at(committed) += probability;
            out.accepted += stood ? probability : 0;
        });
    return out;
}

}  // namespace

TEST_CASE("temperature and top-k count for target and draft alike") {
    // Logits (0, ln 2, ln 4) at T = 1/2 are weights (1, 4, 16); top-k leaves (0, .2, .8). The draft's are reversed.
    const float ln2 = 0.6931472F;
    const row p = {0, ln2, 2 * ln2};
    const row q = {2 * ln2, ln2, 0};
    const sampling_options options{.temperature = 0.5F, .top_k = 2};
    all_branches tree;

    sampled_drafts<branching_noise> drawn(options, {&tree});
    token_id draft = -1;
    draft_output<> proposed{.tokens = {&draft, 1}, .count = 0, .law = {}};
    tree.walk([&] { drawn.choose(matrix_view<const float>(q.data(), 1, 3), 7, {}, proposed); },
              [&](double probability) {
                  CHECK((draft == 0 || draft == 1));
                  CHECK(probability == doctest::Approx(draft == 0 ? 0.8 : 0.2).epsilon(1e-6));
              });
    std::vector<float> weights(3, 0.0F);
    detail::visit_law(proposed.law, 0, [&](token_id t, float w) { weights[static_cast<std::size_t>(t)] = w; });
    CHECK(weights[0] == 1.0F);
    CHECK(weights[1] == doctest::Approx(0.25F).epsilon(1e-6));
    CHECK(weights[2] == 0.0F);

    const auto check = [](const first_token& got) {
        CHECK(got.law[0] == 0);
        CHECK(got.law[1] == doctest::Approx(0.2).epsilon(1e-6));
        CHECK(got.law[2] == doctest::Approx(0.8).epsilon(1e-6));
    };
    const coupled_drafts<branching_noise> coupled(options, {&tree});
    const rejection_sampling<branching_noise> rejection(branching_noise{&tree});
    const first_token matched = walk(tree, p, q, options, sample_and_match{}, drawn);
    check(matched);
    CHECK(matched.accepted == doctest::Approx(0.2 * 0.2).epsilon(1e-6));  // the sum of p q
    check(walk(tree, p, q, options, sample_and_match{}, coupled));
    check(walk(tree, p, q, options, sample_and_match{}, argmax_drafts{}));
    const first_token rejected = walk(tree, p, q, options, rejection, drawn);
    check(rejected);
    CHECK(rejected.accepted == doctest::Approx(0.2).epsilon(1e-6));  // the sum of min(p, q)
    const first_token undrawn = walk(tree, p, q, options, rejection, argmax_drafts{});
    check(undrawn);
    CHECK(undrawn.accepted == 0);  // the draft's best token is the one that the target's filters leave out
}

// ---- equal laws ----

namespace {

/// Lets no draft stand and writes down what it is to draw from.
struct refusing_noise {
    std::vector<double>* weights;

    [[nodiscard]] static token_id draw(noise_key /*key*/, noise_stream /*stream*/, index /*position*/,
                                       std::span<const float> /*scores*/) {
        return no_token;
    }
    [[nodiscard]] token_id weighted(noise_key key, noise_stream stream, index position,
                                    std::span<const double> law) const {
        weights->assign(law.begin(), law.end());
        return philox_noise::weighted(key, stream, position, law);
    }
    [[nodiscard]] static bool happens(noise_key /*key*/, noise_stream /*stream*/, index /*position*/, double /*p*/) {
        return false;
    }
};

static_assert(noise_source<refusing_noise>);

/// The law of a row as weights, dense and sparse.
struct written_law {
    explicit written_law(const row& logits) : dense(logits.size()) {
        REQUIRE(categorical<>().scores(logits, dense));
        for (std::size_t t = 0; t < dense.size(); ++t) {
            dense[t] = numerics::exp(dense[t]);
            if (dense[t] > 0) {
                tokens.push_back(static_cast<token_id>(t));
                entries.push_back(dense[t]);
            }
        }
        begins = {0, size_of(std::span(tokens))};
    }

    [[nodiscard]] std::vector<double> probabilities() const {
        double total = 0;
        for (const float w : dense) {
            total += static_cast<double>(w);
        }
        std::vector<double> out;
        for (const float w : dense) {
            out.push_back(static_cast<double>(w) / total);
        }
        return out;
    }

    row dense;
    std::vector<index> begins;
    std::vector<token_id> tokens;
    row entries;
};

/// A redraw in place of `draft`: the law it was drawn from, normalised. The token must have weight in it.
std::vector<double> redraw_law(const row& p, token_id draft, const draft_law<>& law) {
    std::vector<double> weights;
    const rejection_sampling<refusing_noise> rule(refusing_noise{&weights});
    const row rows = twice(p);
    const verdict v = rule.accept({.drafts = {&draft, 1},
                                   .logits = matrix_view<const float>(rows.data(), 2, size_of(std::span(p))),
                                   .draft_law = law,
                                   .position = 3,
                                   .noise = {11}},
                                  categorical<>());
    CHECK(v.accepted == 0);
    CHECK(v.bad_row == -1);
    REQUIRE(weights.size() == p.size());
    REQUIRE((v.next >= 0 && v.next < size_of(std::span(p))));
    CHECK(weights[static_cast<std::size_t>(v.next)] > 0);
    double total = 0;
    for (const double w : weights) {
        CHECK(w >= 0);  // NaN is not
        total += w;
    }
    CHECK(total > 0);
    for (double& w : weights) {
        w /= total;
    }
    return weights;
}

}  // namespace

TEST_CASE("a draft that falls although the laws are equal is redrawn from p") {
    const float never = -200;  // its weight is zero
    for (const row& p : {row{0, never, never}, row(4, 0.0F), row{0.3F, -1.2F, 0.9F, 0.1F}, row{never, 2, never, 1}}) {
        const written_law q(p);
        const std::vector<double> expected = q.probabilities();
        CAPTURE(expected.size());
        for (const token_id draft : q.tokens) {
            CHECK(redraw_law(p, draft, matrix_view<const float>(q.dense.data(), 1, size_of(std::span(q.dense)))) ==
                  expected);
            CHECK(redraw_law(p, draft, sparse_rows{q.begins, q.tokens, q.entries}) == expected);
        }
    }
}

TEST_CASE("a draft that was not drawn and falls: p without it, and p itself where it is all there is") {
    const float never = -200;
    CHECK(redraw_law({0, never, never}, 0, {}) == std::vector<double>{1, 0, 0});
    const std::vector<double> rest = redraw_law(row(4, 0.0F), 2, {});
    const double third = 1.0 / 3;
    CHECK(rest == std::vector<double>{third, third, 0, third});
}

}  // namespace dflash::test
