// Whole decodes by the library's own noise, counted: after every token the next one follows the target's law. A smoke
// test of what the enumeration cannot reach, the words of Philox and the float Gumbel noise.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/sampling/categorical.hpp>
#include <support/table_pair.hpp>

namespace dflash::test {

namespace {

constexpr index vocab = 6;
constexpr index draws = 200000;

/// Pearson's statistic of the transitions of one long text.
struct statistic {
    double value = 0;
    index degrees = 0;
    double accepted = 0;  ///< share of drafts
};

template <class Rule, class Choice>
statistic count(Choice choice, const sampling_options& options) {
    table_target target(vocab, 20260401, 1000, true);
    table_drafter<Choice> drafter(target, kinship::slot, true, std::move(choice));
    speculative_decoder<table_target, table_drafter<Choice>, categorical<>, Rule> decoder(
        target, drafter, fixed_block(4), categorical<>(options));
    generation_limits limits;
    limits.max_new_tokens = 500;
    const std::vector<token_id> prompt = {0};
    std::vector<double> seen(vocab * vocab, 0.0);
    statistic out;
    for (std::uint64_t text = 0; text < draws / 500; ++text) {
        const generation_result result = decoder.generate(prompt, limits, noise_key{20260401 + text});
        token_id last = prompt.back();
        for (const token_id token : result.tokens) {
            ++seen[static_cast<std::size_t>(last * vocab + token)];
            last = token;
        }
        out.accepted += result.stats.acceptance_ratio() * 500 / static_cast<double>(draws);
    }
    token_filter filter(options);
    for (token_id from = 0; from < vocab; ++from) {
        std::vector<float> scores = target.logits({&from, 1});
        REQUIRE(filter.apply(scores));
        const double total = total_weight(scores);
        double visits = 0;
        for (index to = 0; to < vocab; ++to) {
            visits += seen[static_cast<std::size_t>(from * vocab + to)];
        }
        index cells = 0;
        for (index to = 0; to < vocab; ++to) {
            const double p = static_cast<double>(numerics::exp(scores[static_cast<std::size_t>(to)])) / total;
            const double here = seen[static_cast<std::size_t>(from * vocab + to)];
            if (visits * p < 5) {
                CHECK(here < 25);  // too rare to count
                continue;
            }
            out.value += std::pow(here - visits * p, 2) / (visits * p);
            ++cells;
        }
        out.degrees += cells > 0 ? cells - 1 : 0;
    }
    return out;
}

void judge(const char* name, const statistic& s) {
    MESSAGE(std::string(name) << ": chi-square " << s.value << " with " << s.degrees << " degrees of freedom, "
                              << 100 * s.accepted << " % of drafts accepted");
    const auto n = static_cast<double>(s.degrees);
    REQUIRE(s.degrees >= 12);
    CHECK(s.value < n + 3.5 * std::sqrt(2 * n));
    CHECK(s.value > n - 3.5 * std::sqrt(2 * n));  // too good would be no chance either
    CHECK(s.accepted > 0.1);
    CHECK(s.accepted < 0.95);
}

}  // namespace

TEST_CASE("200,000 tokens of speculative decoding follow the law") {
    const sampling_options plain;
    const sampling_options filtered{.temperature = 1.3F, .top_k = 5, .top_p = 0.95F};
    for (const sampling_options& options : {plain, filtered}) {
        judge("sample_and_match, coupled", count<sample_and_match>(coupled_drafts<>(options), options));
        judge("sample_and_match, argmax", count<sample_and_match>(argmax_drafts{}, options));
        judge("rejection_sampling, drawn", count<rejection_sampling<>>(sampled_drafts<>(options), options));
        judge("rejection_sampling, argmax", count<rejection_sampling<>>(argmax_drafts{}, options));
    }
}

}  // namespace dflash::test
