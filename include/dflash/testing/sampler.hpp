// Conformance of a sampler: the axioms of concepts/sampler.hpp, tried out on rows with ties, extremes and noise.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include <dflash/concepts/sampler.hpp>
#include <dflash/testing/report.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

namespace internal {

/// A row of finite logits: random, all equal, two equal maxima, very large, or signed zeros.
inline std::vector<float> some_logits(dice& die, index vocab_size) {
    std::vector<float> row(static_cast<std::size_t>(vocab_size));
    const index kind = die.below(5);
    for (float& x : row) {
        const float u = die.fraction();
        x = kind == 0 ? 0.25F : 8.0F * u - 4.0F;
        if (kind == 2) {
            x = u < 0.3F ? -(std::numeric_limits<float>::max)() : 1e30F * u;
        }
        if (kind == 3) {
            x = u < 0.5F ? -0.0F : 0.0F;
        }
    }
    if (kind == 1) {
        row[static_cast<std::size_t>(die.below(vocab_size))] = 9.0F;
        row[static_cast<std::size_t>(die.below(vocab_size))] = 9.0F;
    }
    return row;
}

}  // namespace internal

/// Purity and range of pick(), on rows of `vocab_size` logits; for a sampler with history also fork() and advance().
template <token_sampler Sampler>
[[nodiscard]] report check_sampler_conformance(const Sampler& sampler, index vocab_size,
                                               conformance_options options = {}) {
    return internal::collect("token_sampler", [&](report& found) {
        for (index c = 0; c < options.cases; ++c) {
            dice die(options.seed + static_cast<std::uint64_t>(c));
            std::vector<std::vector<float>> rows;
            std::vector<token_id> first;
            for (index i = 0; i < options.longest; ++i) {
                rows.push_back(internal::some_logits(die, vocab_size));
                first.push_back(sampler.pick(rows.back(), i));
                found.expect(first.back() >= 0 && first.back() < vocab_size, "token_sampler", 2, "pick() gave ",
                             first.back(), ", the vocabulary is 0 .. ", vocab_size - 1);
            }
            for (index i = options.longest - 1; i >= 0; --i) {
                const token_id again = sampler.pick(rows[static_cast<std::size_t>(i)], i);
                found.expect(again == first[static_cast<std::size_t>(i)], "token_sampler", 1,
                             "the same logits at position ", i, " gave ", first[static_cast<std::size_t>(i)],
                             ", and after other picks ", again);
            }
            if constexpr (sequence_sampler<Sampler>) {
                const auto picks = [&](const Sampler& s) {
                    std::vector<token_id> out;
                    for (index i = 0; i < options.longest; ++i) {
                        out.push_back(s.pick(rows[static_cast<std::size_t>(i)], i));
                    }
                    return out;
                };
                Sampler walked = sampler.fork();
                found.expect(picks(walked) == first, "sequence_sampler", 3,
                             "a fork picks other tokens than its original");
                const std::vector<token_id> history = die.tokens(1 + die.below(options.longest), vocab_size);
                for (const token_id token : history) {
                    const std::vector<token_id> before = picks(walked);
                    Sampler ahead = walked.fork();
                    ahead.advance(token);
                    ahead.advance(die.token(vocab_size));
                    found.expect(picks(walked) == before, "sequence_sampler", 3,
                                 "advancing a fork changed what its original picks");
                    walked.advance(token);
                }
                found.expect(picks(sampler) == first, "sequence_sampler", 3,
                             "work on a fork of a fork changed the original");
                Sampler other = sampler.fork();
                for (const token_id token : history) {
                    other.advance(token);
                }
                found.expect(picks(other) == picks(walked), "sequence_sampler", 4,
                             "two forks that were told of the same tokens pick different ones");
            }
        }
    });
}

}  // namespace testing

DFLASH_END_NAMESPACE
