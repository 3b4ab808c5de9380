// The exact law of whole decodes: every random choice is walked, probabilities are multiplied, and the law of the text
// is compared with the chain rule of the target. What is wrong in one branch of a thousand shows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/decode/typical_acceptance.hpp>
#include <dflash/sampling/constrained.hpp>
#include <dflash/sampling/penalties.hpp>
#include <support/all_branches.hpp>
#include <support/table_pair.hpp>

namespace dflash::test {

namespace {

using text = std::vector<token_id>;
using law_of_texts = std::map<text, double>;
using sampler_type = categorical<branching_noise>;

double total_variation(const law_of_texts& a, const law_of_texts& b) {
    double distance = 0;
    for (const auto& [t, p] : a) {
        const auto other = b.find(t);
        distance += std::fabs(p - (other == b.end() ? 0.0 : other->second));
    }
    for (const auto& [t, p] : b) {
        distance += a.contains(t) ? 0.0 : p;
    }
    return distance / 2;
}

/// One setting: a target, a prompt, ends and sampling options.
struct setting {
    index vocab = 3;
    std::uint64_t seed = 1;
    index block = 3;
    generation_limits limits;
    sampling_options options;
    penalty_options costs;  // read by those who test samplers with history
    text prompt = {0, 1};
};

/// The law of texts by the chain rule: p of every token after its true prefix, ends as the words say. Knows nothing of
/// decoders, rounds or noise.
template <class Law>
void chain_rule(const setting& s, Law law, const text& so_far, double p, law_of_texts& out) {
    const auto ended = [&] {
        if (size_of(std::span(so_far)) == s.limits.max_new_tokens) {
            return true;
        }
        if (so_far.empty()) {
            return false;
        }
        if (std::count(s.limits.stop_tokens.begin(), s.limits.stop_tokens.end(), so_far.back()) > 0) {
            return true;
        }
        return std::any_of(s.limits.stop_sequences.begin(), s.limits.stop_sequences.end(), [&](const text& stop) {
            return stop.size() <= so_far.size() && std::equal(stop.rbegin(), stop.rend(), so_far.rbegin());
        });
    };
    if (ended()) {
        out[so_far] += p;
        return;
    }
    const std::vector<double> next = law(so_far);
    for (std::size_t t = 0; t < next.size(); ++t) {
        if (next[t] > 0) {
            text longer = so_far;
            longer.push_back(static_cast<token_id>(t));
            chain_rule(s, law, longer, p * next[t], out);
        }
    }
}

std::vector<double> probabilities(const std::vector<float>& scores) {
    std::vector<double> p;
    double total = 0;
    for (const float x : scores) {
        p.push_back(static_cast<double>(numerics::exp(x)));
        total += p.back();
    }
    for (double& x : p) {
        x /= total;
    }
    return p;
}

/// The serial law with the options; with history when `costs` is not null.
law_of_texts serial_law(const setting& s, const table_target& target, bool history = false) {
    law_of_texts out;
    token_filter filter(s.options);
    chain_rule(
        s,
        [&](const text& so_far) {
            text prefix = s.prompt;
            prefix.insert(prefix.end(), so_far.begin(), so_far.end());
            std::vector<float> row = target.logits(prefix);
            if (history) {
                penalties paid(s.costs);
                for (std::size_t i = 0; i < prefix.size(); ++i) {
                    if (i == s.prompt.size()) {
                        paid.start();
                    }
                    paid.advance(prefix[i]);
                }
                if (so_far.empty()) {
                    paid.start();
                }
                paid.apply(row);
            }
            REQUIRE(filter.apply(row));
            return probabilities(row);
        },
        {}, 1.0, out);
    return out;
}

/// The law of what a decoder says, over all branches. `make` builds the decoder anew for each.
template <class Make>
law_of_texts walked(all_branches& tree, const setting& s, Make make, index* runs = nullptr) {
    law_of_texts out;
    text said;
    const index count = tree.walk([&] { said = make(s); }, [&](double p) { out[said] += p; });
    if (runs != nullptr) {
        *runs += count;
    }
    double sum = 0;
    for (const auto& [t, p] : out) {
        sum += p;
    }
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-12));
    return out;
}

template <class Drafter, class Sampler, class Rule, determinism Required = determinism::batch_invariant>
text speculate(const setting& s, table_target& target, Drafter drafter, Sampler sampler, Rule rule) {
    speculative_decoder<table_target, Drafter, Sampler, Rule, fixed_block, no_observer, Required> decoder(
        target, drafter, fixed_block(s.block), std::move(sampler), std::move(rule));
    return decoder.generate(s.prompt, s.limits).tokens;
}

/// Settings that differ in every respect; several rounds each.
std::vector<setting> settings() {
    std::vector<setting> all;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        setting s;
        s.seed = seed;
        s.limits.max_new_tokens = 5;
        all.push_back(s);
    }
    all[1].limits.stop_tokens = {2};
    all[1].limits.max_new_tokens = 6;
    all[2].block = 4;
    all[2].options.temperature = 0.5F;
    all[3].options.top_k = 2;
    all[3].limits.max_new_tokens = 7;
    all[3].limits.stop_sequences = {{0, 1}, {1, 1}};
    all[4].vocab = 4;
    all[4].block = 2;
    all[4].options.top_p = 0.8F;
    all[4].options.biases = {{1, 0.75F}, {3, -numerics::infinity}};
    all[5].options.min_p = 0.3F;
    all[5].options.temperature = 1.5F;
    all[5].block = 4;
    all[5].limits.max_new_tokens = 6;
    all[5].limits.stop_tokens = {0};
    return all;
}

constexpr kinship every_kinship[] = {kinship::twin, kinship::slot, kinship::stranger};

}  // namespace

TEST_CASE("serial decoding follows the chain rule") {
    all_branches tree;
    for (const setting& s : settings()) {
        table_target target(s.vocab, s.seed);
        const law_of_texts law = walked(tree, s, [&](const setting& here) {
            serial_decoder<table_target, sampler_type> decoder(target, sampler_type(here.options, {&tree}));
            return decoder.generate(here.prompt, here.limits).tokens;
        });
        CHECK(total_variation(law, serial_law(s, target)) < 1e-12);
    }
}

TEST_CASE("sample_and_match keeps the law: argmax, coupled and independent drafts") {
    all_branches tree;
    index runs = 0;
    for (const setting& s : settings()) {
        table_target target(s.vocab, s.seed);
        const law_of_texts expected = serial_law(s, target);
        for (const kinship kin : every_kinship) {
            for (const bool chained : {false, true}) {
                CAPTURE(s.seed);
                CAPTURE(static_cast<int>(kin));
                CAPTURE(chained);
                const auto distance = [&](auto choice) {
                    return total_variation(walked(
                                               tree, s,
                                               [&](const setting& here) {
                                                   return speculate(
                                                       here, target, table_drafter(target, kin, chained, choice),
                                                       sampler_type(here.options, {&tree}), sample_and_match{});
                                               },
                                               &runs),
                                           expected);
                };
                CHECK(distance(argmax_drafts{}) < 1e-12);
                CHECK(distance(coupled_drafts<branching_noise>(s.options, {&tree})) < 1e-12);
                CHECK(distance(sampled_drafts<branching_noise>(s.options, {&tree})) < 1e-12);
            }
        }
    }
    MESSAGE(runs << " branches walked");
}

TEST_CASE("rejection_sampling keeps the law: dense, sparse and undrawn drafts") {
    all_branches tree;
    index runs = 0;
    for (const setting& s : settings()) {
        table_target target(s.vocab, s.seed);
        const law_of_texts expected = serial_law(s, target);
        for (const kinship kin : every_kinship) {
            for (const bool chained : {false, true}) {
                CAPTURE(s.seed);
                CAPTURE(static_cast<int>(kin));
                CAPTURE(chained);
                const auto distance = [&](auto choice) {
                    return total_variation(walked(
                                               tree, s,
                                               [&](const setting& here) {
                                                   return speculate(
                                                       here, target, table_drafter(target, kin, chained, choice),
                                                       sampler_type(here.options, {&tree}),
                                                       rejection_sampling<branching_noise>(branching_noise{&tree}));
                                               },
                                               &runs),
                                           expected);
                };
                CHECK(distance(argmax_drafts{}) < 1e-12);
                CHECK(distance(sampled_drafts<branching_noise>(s.options, {&tree})) < 1e-12);
                sampling_options other = s.options;  // q need not use the target's options
                other.top_k = 2;
                other.temperature = 0.7F;
                CHECK(distance(sampled_drafts<branching_noise>(other, {&tree})) < 1e-12);
            }
        }
    }
    MESSAGE(runs << " branches walked");
}

TEST_CASE("samplers with history keep the law under both rules") {
    all_branches tree;
    for (setting s : settings()) {
        s.costs = {.repetition = 1.5F, .frequency = 0.5F, .presence = 0.25F};
        table_target target(s.vocab, s.seed);
        const law_of_texts expected = serial_law(s, target, true);
        CHECK(total_variation(expected, serial_law(s, target)) > 1e-3);  // the penalties count
        const auto make = [&](auto rule) {
            return walked(tree, s, [&](const setting& here) {
                return speculate(
                    here, target,
                    table_drafter(target, kinship::slot, false, sampled_drafts<branching_noise>(here.options, {&tree})),
                    constrained(sampler_type(here.options, {&tree}), penalties(here.costs)), rule);
            });
        };
        CHECK(total_variation(make(sample_and_match{}), expected) < 1e-12);
        CHECK(total_variation(make(rejection_sampling<branching_noise>(branching_noise{&tree})), expected) < 1e-12);
    }
}

TEST_CASE("typical_acceptance is lossy, as its type says") {
    all_branches tree;
    double largest = 0;
    for (const setting& s : settings()) {
        table_target target(s.vocab, s.seed);
        const law_of_texts law = walked(tree, s, [&](const setting& here) {
            using drafter = table_drafter<argmax_drafts>;
            return speculate<drafter, sampler_type, typical_acceptance, allow_numeric_drift>(
                here, target, drafter(target, kinship::slot, false, argmax_drafts{}),
                sampler_type(here.options, {&tree}), typical_acceptance{});
        });
        largest = (std::max)(largest, total_variation(law, serial_law(s, target)));
    }
    MESSAGE("typical_acceptance: total variation up to " << largest);
    CHECK(largest > 0.05);
}

// ---- mutants
// ---------------------------------------------------------------------------------------------------------

namespace {

enum class flaw {
    none,
    redraw_from_p,
    inverted_ratio,
    q_of_the_next_position,
    bonus_from_q,
    greedy_draft_with_soft_q,
    absolute_residual,
    bonus_context_misses_last,
    residual_floor,
    shared_noise,
    redraw_shares_accept_noise,
    draft_filters_forgotten,
};

struct named_flaw {
    flaw kind;
    const char* name;
};

constexpr named_flaw every_flaw[] = {
    {flaw::redraw_from_p, "redraw from p"},
    {flaw::inverted_ratio, "inverted ratio"},
    {flaw::q_of_the_next_position, "q of the next position"},
    {flaw::bonus_from_q, "bonus from q"},
    {flaw::greedy_draft_with_soft_q, "greedy draft scored with soft q"},
    {flaw::absolute_residual, "|p - q| residual"},
    {flaw::bonus_context_misses_last, "bonus context missing the last token"},
    {flaw::residual_floor, "residual floor 1e-3"},
    {flaw::shared_noise, "accept shares the draft's noise"},
    {flaw::redraw_shares_accept_noise, "redraw shares the accept noise"},
    {flaw::draft_filters_forgotten, "p without the filters that the sampler uses"},
};

/// Rejection sampling written out plainly, with one flaw.
struct flawed_rejection {
    static constexpr bool lossless = true;  // it says so

    all_branches* tree = nullptr;
    flaw kind = flaw::none;

    [[nodiscard]] bool is(flaw f) const { return kind == f; }

    template <class Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        const branching_noise noise{tree};
        const index n = size_of(call.drafts);
        const auto vocab = static_cast<std::size_t>(call.logits.cols());
        const auto p_of = [&](index i) {
            std::vector<float> scores(vocab);
            if (is(flaw::draft_filters_forgotten)) {
                token_filter plain;
                scores.assign(call.logits.row(i).begin(), call.logits.row(i).end());
                static_cast<void>(plain.apply(scores));
            } else {
                static_cast<void>(sampler.scores(call.logits.row(i), scores));
            }
            return probabilities(scores);
        };
        const auto q_of = [&](index i) {
            std::vector<double> q(vocab, 0.0);
            double total = 0;
            detail::visit_law(call.draft_law, i, [&](token_id t, float w) {
                q[static_cast<std::size_t>(t)] = static_cast<double>(w);
                total += static_cast<double>(w);
            });
            for (double& x : q) {
                x /= total;
            }
            return q;
        };
        for (index i = 0; i < n; ++i) {
            const auto x = static_cast<std::size_t>(call.drafts[static_cast<std::size_t>(i)]);
            const std::vector<double> p = p_of(i);
            const std::vector<double> q = q_of(is(flaw::q_of_the_next_position) ? (std::min)(i + 1, n - 1) : i);
            const double ratio = is(flaw::inverted_ratio) ? q[x] / p[x] : p[x] / q[x];
            const noise_stream accept_stream = is(flaw::shared_noise) ? noise_stream::draft : noise_stream::accept;
            if (noise.happens(call.noise, accept_stream, call.position + i, ratio)) {
                continue;
            }
            std::vector<double> residual(vocab);
            double sum = 0;
            for (std::size_t t = 0; t < vocab; ++t) {
                residual[t] = is(flaw::redraw_from_p) ? p[t] : p[t] - q[t];
                residual[t] = is(flaw::absolute_residual) ? std::fabs(residual[t]) : residual[t];
                residual[t] = (std::max)(residual[t], is(flaw::residual_floor) ? 1e-3 : 0.0);
                sum += residual[t];
            }
            const noise_stream redraw_stream =
                is(flaw::redraw_shares_accept_noise) ? noise_stream::accept : noise_stream::redraw;
            return {.accepted = i,
                    .next = noise.weighted(call.noise, redraw_stream, call.position + i, sum > 0 ? residual : p)};
        }
        index row = n;
        if (is(flaw::bonus_context_misses_last) && n > 0) {
            row = n - 1;
        }
        std::vector<double> bonus = p_of(row);
        if (is(flaw::bonus_from_q) && n > 0) {
            bonus = q_of(n - 1);
        }
        return {.accepted = n, .next = noise.weighted(call.noise, noise_stream::token, call.position + n, bonus)};
    }
};

/// Takes the best token and hands over the law it would have been drawn from.
struct greedy_with_soft_law {
    sampled_drafts<branching_noise> soft;

    void choose(matrix_view<const float> logits, index position, noise_key key, draft_output<>& out) {
        soft.choose(logits, position, key, out);
        for (index i = 0; i < out.count; ++i) {
            out.tokens[static_cast<std::size_t>(i)] =
                static_cast<token_id>(numerics::argmax(logits.row(i).data(), logits.cols()));
        }
    }
};

double distance_of(flaw kind, const setting& s) {
    all_branches tree;
    table_target target(s.vocab, s.seed);
    const sampled_drafts<branching_noise> honest(s.options, {&tree});
    const flawed_rejection rule{&tree, kind};
    const law_of_texts law = walked(tree, s, [&](const setting& here) {
        const sampler_type sampler(here.options, {&tree});
        return kind == flaw::greedy_draft_with_soft_q
                   ? speculate(here, target, table_drafter(target, kinship::slot, false, greedy_with_soft_law{honest}),
                               sampler, rule)
                   : speculate(here, target, table_drafter(target, kinship::slot, false, honest), sampler, rule);
    });
    return total_variation(law, serial_law(s, target));
}

}  // namespace

TEST_CASE("the enumeration catches every flaw of rejection sampling") {
    setting plain;
    plain.seed = 7;
    plain.limits.max_new_tokens = 4;
    setting filtered = plain;
    filtered.options.top_k = 2;
    CHECK(distance_of(flaw::none, plain) < 1e-12);
    CHECK(distance_of(flaw::none, filtered) < 1e-12);
    for (const named_flaw& f : every_flaw) {
        const double distance = distance_of(f.kind, f.kind == flaw::draft_filters_forgotten ? filtered : plain);
        MESSAGE(std::string(f.name) << ": total variation " << distance);
        CHECK(distance > 1e-4);
    }
}

}  // namespace dflash::test
