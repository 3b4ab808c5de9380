// Conformance of an acceptance rule: the axioms of concepts/acceptance.hpp, tried out on made-up blocks.
//
// Rules that promise the same tokens are compared with serial draws, token by token. Rules that are lossless in law
// only are compared with serial draws by counting; the bound is five standard deviations.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <dflash/concepts/acceptance.hpp>
#include <dflash/testing/report.hpp>
#include <dflash/testing/sampler.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

namespace internal {

/// The logits and drafts of one block, in memory of its own.
struct made_block {
    std::vector<token_id> drafts;
    std::vector<float> logits;  // (n + 1, v)
    std::vector<float> law;     // (n, v)
    index vocab = 0;
    index position = 0;
    noise_key noise;

    [[nodiscard]] accept_call<> call(bool drawn) const {
        const index n = static_cast<index>(drafts.size());
        return {.drafts = drafts,
                .logits = matrix_view<const float>(logits.data(), n + 1, vocab),
                .draft_law = drawn ? matrix_view<const float>(law.data(), n, vocab) : matrix_view<const float>(),
                .position = position,
                .noise = noise};
    }
    /// Row i alone, as serial decoding sees it.
    [[nodiscard]] accept_call<> serial(index i) const {
        return {.drafts = {},
                .logits = matrix_view<const float>(logits.data() + i * vocab, 1, vocab),
                .draft_law = {},
                .position = position + i,
                .noise = noise};
    }
};

/// A block of n drafts that often agree with what the sampler would pick.
template <class Sampler>
made_block make_block(dice& die, index n, index vocab, const Sampler& sampler, bool random_logits) {
    made_block out;
    out.vocab = vocab;
    out.position = 1 + die.below(100);
    out.noise.seed = die.roll();
    for (index i = 0; i <= n; ++i) {
        std::vector<float> row = some_logits(die, vocab);
        if (random_logits) {
            for (float& x : row) {
                x = 4.0F * die.fraction();
            }
        }
        out.logits.insert(out.logits.end(), row.begin(), row.end());
        if (i == n) {
            break;
        }
        float sum = 0;
        std::vector<float> q(static_cast<std::size_t>(vocab));
        for (float& x : q) {
            x = 0.05F + die.fraction();
            sum += x;
        }
        for (float& x : q) {
            x /= sum;
        }
        out.law.insert(out.law.end(), q.begin(), q.end());
        out.drafts.push_back(die.below(4) > 0 ? sampler.pick(row, out.position + i) : die.token(vocab));
    }
    return out;
}

inline bool same(const verdict& a, const verdict& b) {
    return a.accepted == b.accepted && a.bad_row == b.bad_row && (a.bad_row >= 0 || a.next == b.next);
}

}  // namespace internal

/// The axioms of acceptance_rule, with this sampler on rows of `vocab_size` logits. A rule is tried with drafts that
/// were drawn from a law and with drafts that were not.
template <class Rule, token_sampler Sampler>
    requires acceptance_rule<Rule, Sampler, host_space>
[[nodiscard]] report check_acceptance_conformance(const Rule& rule, const Sampler& sampler, index vocab_size,
                                                  conformance_options options = {}) {
    return internal::collect("acceptance_rule", [&](report& found) {
        constexpr const char* subject = "acceptance_rule";
        const auto decide = [&rule, &sampler](const accept_call<>& call) {
            if constexpr (sequence_sampler<Sampler>) {
                Sampler own = sampler.fork();
                return rule.accept(call, own);
            } else if constexpr (requires { rule.accept(call, sampler); }) {
                return rule.accept(call, sampler);
            } else {
                Sampler own = sampler;
                return rule.accept(call, own);
            }
        };
        for (index c = 0; c < options.cases * 8; ++c) {
            dice die(options.seed + static_cast<std::uint64_t>(c));
            const index n = c % 18;
            const bool drawn = c % 2 == 1;
            const internal::made_block block = internal::make_block(die, n, vocab_size, sampler, false);
            const verdict outcome = decide(block.call(drawn));
            if (!found.expect(outcome.accepted >= 0 && outcome.accepted <= n && outcome.bad_row < 0, subject, 2, "of ",
                              n, " drafts on finite rows it accepted ", outcome.accepted, " with bad_row ",
                              outcome.bad_row)) {
                continue;
            }
            found.expect(outcome.next >= 0 && outcome.next < vocab_size, subject, 2, "its own token is ", outcome.next,
                         ", the vocabulary is 0 .. ", vocab_size - 1);
            found.expect(internal::same(outcome, decide(block.call(drawn))), subject, 1,
                         "the same block was judged twice differently");

            // What comes after the row that ends the round is nobody's business; the row itself is.
            constexpr float spoils[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                        -std::numeric_limits<float>::infinity()};
            for (index r = 0; r <= n; ++r) {
                internal::made_block spoiled = block;
                spoiled.logits[static_cast<std::size_t>(r * vocab_size + die.below(vocab_size))] =
                    spoils[static_cast<std::size_t>(die.below(3))];
                const verdict other = decide(spoiled.call(drawn));
                if (r > outcome.accepted) {
                    found.expect(internal::same(other, outcome), subject, 1, "row ", r,
                                 " changed the outcome, although the round ended at row ", outcome.accepted);
                } else {
                    found.expect(other.bad_row == r && other.accepted == r, subject, 3, "row ", r,
                                 " is not finite and was needed; bad_row is ", other.bad_row, " and accepted ",
                                 other.accepted);
                }
            }
            if constexpr (requires { Rule::same_tokens; }) {
                if (Rule::same_tokens && !sequence_sampler<Sampler>) {
                    index i = 0;
                    token_id token = decide(block.serial(0)).next;
                    while (i < n && token == block.drafts[static_cast<std::size_t>(i)]) {
                        token = decide(block.serial(++i)).next;
                    }
                    found.expect(outcome.accepted == i && outcome.next == token, subject, 4, "it accepted ",
                                 outcome.accepted, " drafts and went on with ", outcome.next,
                                 ", serial decoding gives ", i, " and ", token);
                }
            }
        }
        if constexpr (Rule::lossless && !sequence_sampler<Sampler>) {
            // The first token of the round follows the law it has without drafts.
            const index trials = 2000 * options.cases;
            for (index drawn = 0; drawn < 2; ++drawn) {
                dice die(options.seed + static_cast<std::uint64_t>(drawn));
                internal::made_block block = internal::make_block(die, 1, vocab_size, sampler, true);
                const token_id fixed = die.token(vocab_size);
                std::vector<index> with(static_cast<std::size_t>(vocab_size), 0);
                std::vector<index> without = with;
                for (index t = 0; t < trials; ++t) {
                    block.position = 1 + t;
                    block.noise.seed = die.roll();
                    block.drafts[0] = fixed;
                    if (drawn == 1) {
                        float u = die.fraction();
                        block.drafts[0] = static_cast<token_id>(vocab_size - 1);
                        for (index k = 0; k < vocab_size; ++k) {
                            u -= block.law[static_cast<std::size_t>(k)];
                            if (u < 0) {
                                block.drafts[0] = static_cast<token_id>(k);
                                break;
                            }
                        }
                    }
                    const verdict outcome = decide(block.call(drawn == 1));
                    const token_id first = outcome.accepted > 0 ? block.drafts[0] : outcome.next;
                    const token_id serial = decide(block.serial(0)).next;
                    if (first >= 0 && first < vocab_size && serial >= 0 && serial < vocab_size) {
                        ++with[static_cast<std::size_t>(first)];
                        ++without[static_cast<std::size_t>(serial)];
                    }
                }
                for (index k = 0; k < vocab_size; ++k) {
                    const auto a = static_cast<double>(with[static_cast<std::size_t>(k)]);
                    const auto b = static_cast<double>(without[static_cast<std::size_t>(k)]);
                    found.expect((a - b) * (a - b) <= 25.0 * (a + b) + 25.0, subject, 4, "token ", k, " came first in ",
                                 with[static_cast<std::size_t>(k)], " of ", trials, " rounds with a ",
                                 drawn == 1 ? "drawn" : "fixed", " draft and in ", without[static_cast<std::size_t>(k)],
                                 " without");
                }
            }
        }
    });
}

}  // namespace testing

DFLASH_END_NAMESPACE
