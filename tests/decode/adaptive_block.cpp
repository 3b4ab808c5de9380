// The adaptive policy on made-up texts whose acceptance is known: against plain decoding, against every fixed length.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <dflash/decode/adaptive_block.hpp>
#include <dflash/testing/conformance.hpp>
#include <dflash/testing/report.hpp>

namespace dflash::test {

namespace {

/// A stretch of text: the chance that a draft stands where those before it did.
struct stretch {
    index tokens;
    double acceptance;
};

/// A curve of costs, in plain rounds.
struct machine {
    const char* name;
    double draft;    ///< of a draft, whatever its length
    double per_row;  ///< of each row verified beyond the first
};

constexpr machine machines[] = {
    {"memory bound", 0.12, 0.01}, {"compute bound", 0.2, 0.1}, {"tiny model", 0.5, 0.15}, {"steep", 0.3, 0.4}};
constexpr index longest = 16;

block_costs costs_of(const machine& m) {
    block_costs costs = {1.0};
    for (index b = 2; b <= longest; ++b) {
        costs.push_back(1.0 + m.draft + m.per_row * static_cast<double>(b - 1));
    }
    return costs;
}

struct run {
    double time = 0;
    index tokens = 0;
    std::vector<index> blocks;
};

/// Plays a text. Which draft stands where is decided by the position, so that every policy meets the same text.
template <class Policy>
run play(Policy& policy, const std::vector<stretch>& text, const block_costs& costs, std::uint64_t seed, double noise) {
    run out;
    testing::dice jitter(seed + 5);
    index total = 0;
    for (const stretch& s : text) {
        total += s.tokens;
    }
    while (out.tokens < total) {
        const index limit = total - out.tokens;
        const index b = policy.next(limit);
        REQUIRE(b >= 1);
        REQUIRE(b <= (std::min)(limit, longest));
        index accepted = 0;
        while (accepted < b - 1) {
            const index position = out.tokens + accepted;
            index behind = 0;
            std::size_t s = 0;
            while (position >= behind + text[s].tokens) {
                behind += text[s++].tokens;
            }
            testing::dice die(seed + 1000003U * static_cast<std::uint64_t>(position));
            if (static_cast<double>(die.fraction()) >= text[s].acceptance) {
                break;
            }
            ++accepted;
        }
        const double cost = costs[static_cast<std::size_t>(b - 1)];
        const double measured = cost * (1 + noise * static_cast<double>(jitter.fraction()));
        out.time += cost;
        out.tokens += accepted + 1;
        out.blocks.push_back(b);
        policy.record({.block = b,
                       .drafted = b - 1,
                       .accepted = accepted,
                       .committed = accepted + 1,
                       .draft_seconds = 0.25 * measured,
                       .verify_seconds = 0.75 * measured});
    }
    return out;
}

double best_fixed(const std::vector<stretch>& text, const block_costs& costs, std::uint64_t seed,
                  index* best = nullptr) {
    double least = 0;
    for (index b = 1; b <= longest; ++b) {
        fixed_block policy(b);
        const double time = play(policy, text, costs, seed, 0).time;
        if (b == 1 || time < least) {
            least = time;
            if (best != nullptr) {
                *best = b;
            }
        }
    }
    return least;
}

double plain_time(const std::vector<stretch>& text) {
    double tokens = 0;
    for (const stretch& s : text) {
        tokens += static_cast<double>(s.tokens);
    }
    return tokens;
}

}  // namespace

TEST_CASE("adaptive_block conforms, measuring or not") {
    adaptive_block measuring(8);
    const testing::report measured = testing::check_block_policy_conformance(measuring);
    CHECK_MESSAGE(measured.passed(), measured.text());
    adaptive_block given(4, {.costs = {1, 1.2, 1.3, 1.5}});
    const testing::report recorded = testing::check_block_policy_conformance(given);
    CHECK_MESSAGE(recorded.passed(), recorded.text());
}

TEST_CASE("never more than three percent slower than plain decoding, over 600 tokens") {
    double worst = 0;
    for (const machine& m : machines) {
        for (const double acceptance : {0.0, 0.05, 0.2, 0.35, 0.5, 0.65}) {
            for (std::uint64_t seed = 1; seed <= 5; ++seed) {
                for (const double noise : {0.0, 0.1}) {
                    const std::vector<stretch> text = {{600, acceptance}};  // one block of the longest kind is in it
                    adaptive_block recorded(longest, {.costs = costs_of(m)});
                    adaptive_block measured(longest);
                    for (adaptive_block* policy : {&recorded, &measured}) {
                        const double ratio = play(*policy, text, costs_of(m), seed, noise).time / plain_time(text);
                        CAPTURE(std::string(m.name));
                        CAPTURE(acceptance);
                        CAPTURE(policy == &measured);
                        CHECK(ratio < 1.03);
                        worst = (std::max)(worst, ratio);
                    }
                }
            }
        }
    }
    MESSAGE("slowest text: " << worst << " of plain decoding");
}

TEST_CASE("a text that turns against it at every chance does not get further") {
    // Drafts stand exactly while the policy does not draft.
    for (const machine& m : machines) {
        adaptive_block policy(longest, {.costs = costs_of(m)});
        double time = 0;
        index tokens = 0;
        while (tokens < 1000) {
            const index b = policy.next(1000 - tokens);
            time += costs_of(m)[static_cast<std::size_t>(b - 1)];
            policy.record(
                {.block = b, .drafted = b - 1, .accepted = 0, .committed = 1, .draft_seconds = 0, .verify_seconds = 0});
            ++tokens;
        }
        CHECK(time < 1.025 * 1000);
        CHECK(time > 1000.5);  // it does look
    }
}

TEST_CASE("a drafter that gives less than it was asked for costs no more") {
    // Its drafts never stand, and a block of the longest kind never comes back: the first look must be the last.
    for (const machine& m : machines) {
        for (const index most : {index{2}, index{5}, longest - 1}) {
            adaptive_block recorded(longest, {.costs = costs_of(m)});
            adaptive_block measured(longest);
            for (adaptive_block* policy : {&recorded, &measured}) {
                double time = 0;
                for (index tokens = 0; tokens < 1000; ++tokens) {
                    const index b = (std::min)(policy->next(1000 - tokens), most);
                    const double cost = costs_of(m)[static_cast<std::size_t>(b - 1)];
                    time += cost;
                    policy->record({.block = b,
                                    .drafted = b - 1,
                                    .accepted = 0,
                                    .committed = 1,
                                    .draft_seconds = 0.25 * cost,
                                    .verify_seconds = 0.75 * cost});
                }
                CAPTURE(std::string(m.name));
                CAPTURE(most);
                CAPTURE(policy == &measured);
                CHECK(time < 1.03 * 1000);
            }
        }
    }
}

TEST_CASE("as good as the best fixed length, better on mixed text") {
    double mixed_sum = 0;
    index mixed_count = 0;
    double steady = 0;
    double steady_sum = 0;
    for (const machine& m : machines) {
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            for (const double acceptance : {0.0, 0.5, 0.8, 0.9, 0.97}) {
                const std::vector<stretch> text = {{600, acceptance}};
                adaptive_block policy(longest, {.costs = costs_of(m)});
                const double ratio =
                    play(policy, text, costs_of(m), seed, 0).time / best_fixed(text, costs_of(m), seed);
                CAPTURE(std::string(m.name));
                CAPTURE(acceptance);
                CHECK(ratio < 1.3);  // the best length is known only afterwards
                steady = (std::max)(steady, ratio);
                steady_sum += ratio;
            }
            std::vector<stretch> mixed;
            for (int i = 0; i < 6; ++i) {
                mixed.push_back({150, i % 2 == 0 ? 0.97 : 0.1});
            }
            adaptive_block policy(longest, {.costs = costs_of(m)});
            index best = 0;
            const double fixed_time = best_fixed(mixed, costs_of(m), seed, &best);
            const double ratio = play(policy, mixed, costs_of(m), seed, 0).time / fixed_time;
            CAPTURE(std::string(m.name));
            CAPTURE(best);
            CHECK(ratio < 1.05);
            mixed_sum += ratio;
            ++mixed_count;
        }
    }
    MESSAGE("steady text: " << steady << " of the best fixed length at worst, "
                            << steady_sum / static_cast<double>(30 * std::size(machines)) << " on average");
    MESSAGE("mixed text: " << mixed_sum / static_cast<double>(mixed_count) << " of the best fixed length on average");
    CHECK(mixed_sum / static_cast<double>(mixed_count) < 1.0);
}

TEST_CASE("it finds the best length where costs go up in steps") {
    // As measured with the kernels' tiles of 1, 2, 4, 8, 12 and 16 rows: a straight line from 1 to 8 hides that 4 is
    // best.
    block_costs steps;
    for (index b = 1; b <= longest; ++b) {
        steps.push_back(b == 1 ? 1.0 : (b == 2 ? 1.4 : (b <= 4 ? 1.73 : (b <= 8 ? 3.12 : (b <= 12 ? 4.3 : 5.3)))));
    }
    double worst = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        for (const double acceptance : {0.6, 0.8, 0.9, 0.95}) {
            for (const double noise : {0.0, 0.1}) {
                const std::vector<stretch> text = {{3000, acceptance}};
                adaptive_block policy(longest);
                const double ratio = play(policy, text, steps, seed, noise).time / best_fixed(text, steps, seed);
                CAPTURE(acceptance);
                CHECK(ratio < 1.06);
                worst = (std::max)(worst, ratio);
            }
        }
    }
    MESSAGE("steps: " << worst << " of the best fixed length at worst");
}

TEST_CASE("a machine that changes its balance is noticed") {
    // First rows are cheap, then they are dear: the times of lengths that were not used lately are of another machine.
    const block_costs cheap = costs_of(machines[0]);
    block_costs dear = {1.0};
    for (index b = 2; b <= longest; ++b) {
        dear.push_back(b <= 4 ? 1.5 : 6.0);
    }
    const std::vector<stretch> text = {{4000, 0.9}};
    adaptive_block policy(longest);
    play(policy, text, cheap, 1, 0.02);
    const double ratio = play(policy, text, dear, 2, 0.02).time / best_fixed(text, dear, 2);
    MESSAGE("after the change: " << ratio << " of the best fixed length");
    CHECK(ratio < 1.08);
}

TEST_CASE("given a cost table the choice depends on the accepted counts alone") {
    const std::vector<stretch> text = {{100, 0.9}, {100, 0.1}, {100, 0.95}};
    adaptive_block quiet(longest, {.costs = costs_of(machines[1])});
    adaptive_block noisy(longest, {.costs = costs_of(machines[1])});
    CHECK(play(quiet, text, costs_of(machines[1]), 3, 0).blocks ==
          play(noisy, text, costs_of(machines[1]), 3, 5).blocks);
}

TEST_CASE("what makes no sense is refused") {
    CHECK_THROWS_AS(adaptive_block(0), config_error);
    CHECK_THROWS_WITH_AS(adaptive_block(3, {.costs = {1, 2}}),
                         "costs: got 2 entries, needs one for each block length, 3", config_error);
    CHECK_THROWS_AS(adaptive_block(2, {.costs = {1, 0}}), config_error);
    CHECK_THROWS_AS(adaptive_block(2, {.allowance = -1}), config_error);
}

}  // namespace dflash::test
