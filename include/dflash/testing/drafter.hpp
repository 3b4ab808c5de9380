// Conformance of a drafter on its target: the axioms of concepts/drafter.hpp, tried out.
//
// Whether the guesses are good is not asked: any ids of the vocabulary are legal, also none.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <dflash/buffer.hpp>
#include <dflash/concepts/drafter.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/testing/report.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

namespace internal {

/// A law for every draft or none; weights that are numbers >= 0, and some weight on the token that was drawn.
template <class Space>
void check_law(report& found, const draft_output<Space>& out, index vocab) {
    constexpr const char* subject = "drafter";
    const draft_law<Space>& law = out.law;
    if (law.rows() == 0) {
        return;
    }
    const index cols = law.sparse.rows() > 0 ? vocab : law.dense.cols();
    if (!found.expect(law.rows() == out.count && cols == vocab, subject, 5, "the law of ", out.count, " drafts is (",
                      law.rows(), ", ", cols, "), needs (", out.count, ", ", vocab, ") or no rows")) {
        return;
    }
    if constexpr (std::is_same_v<Space, host_space>) {
        for (index i = 0; i < out.count; ++i) {
            float drawn = 0;
            token_id before = -1;
            dflash::detail::visit_law(law, i, [&](token_id token, float weight) {
                found.expect(token > before && token < vocab, subject, 5, "the law of draft ", i, " names token ",
                             token, " after ", before, ", the vocabulary is 0 .. ", vocab - 1);
                found.expect(weight >= 0 && numerics::is_finite(weight), subject, 5, "the law of draft ", i,
                             " gives token ", token, " the weight ", weight);
                drawn = token == out.tokens[static_cast<std::size_t>(i)] ? weight : drawn;
                before = token;
            });
            found.expect(drawn > 0, subject, 5, "draft ", i, " is token ", out.tokens[static_cast<std::size_t>(i)],
                         ", which its law rules out");
        }
    }
}

}  // namespace internal

/// Feeds the drafter sequences of the target, in pieces, with crops and resets, and asks for drafts of every length up
/// to `longest_block` in between. Leaves the drafter reset.
template <target_model Model, drafter_for<Model> Drafter>
[[nodiscard]] report check_drafter_conformance(Drafter& drafter, Model& model, conformance_options options = {},
                                               index longest_block = 9) {
    return internal::collect("drafter", [&](report& found) {
        using space = typename Model::space;
        constexpr const char* subject = "drafter";
        const index vocab = model.vocab_size();
        const index width = drafter.feature_size();
        const index longest = (std::min<index>)({options.longest, model.max_positions(), drafter.max_positions() - 1});
        if (!found.expect(longest >= 2 && width >= 0, subject, 6, "max_positions() is ", drafter.max_positions(),
                          " and feature_size() is ", width, "; there is nothing it could follow")) {
            return;
        }
        buffer<float, space> features(longest * width);
        const noise_key noise{options.seed};

        // One proposal after the anchor, with sentinels behind the room that was given.
        const auto propose = [&](std::span<const token_id> committed, index block) {
            std::vector<token_id> room(static_cast<std::size_t>(block - 1) + 4, token_id{-7});
            const index before = drafter.context_length();
            draft_output<space> out;
            out.tokens = std::span<token_id>(room).first(static_cast<std::size_t>(block - 1));
            drafter.propose({.committed = committed, .block = block, .noise = noise}, out);
            found.expect(drafter.context_length() == before, subject, 2, "propose() made context_length() ",
                         drafter.context_length(), ", was ", before);
            found.expect(out.count >= 0 && out.count <= block - 1, subject, 2, "propose() wrote ", out.count,
                         " ids, was asked for at most ", block - 1);
            found.expect(std::count(room.end() - 4, room.end(), token_id{-7}) == 4, subject, 2,
                         "propose() wrote past the room for ", block - 1, " ids");
            room.resize(static_cast<std::size_t>((std::max)(index{0}, (std::min)(out.count, block - 1))));
            for (const token_id id : room) {
                found.expect(id >= 0 && id < vocab, subject, 1, "it proposed ", id, ", the vocabulary is 0 .. ",
                             vocab - 1);
            }
            internal::check_law(found, out, vocab);
            return room;
        };

        for (index c = 0; c < options.cases; ++c) {
            dice die(options.seed + static_cast<std::uint64_t>(c));
            const index n = 2 + die.below(longest - 1);
            const std::vector<token_id> tokens = die.tokens(n, vocab);
            const std::vector<token_id> strange = die.tokens(n, vocab);
            const auto committed = [&](index count) {
                return std::span<const token_id>(tokens).first(static_cast<std::size_t>(count));
            };

            // Positions first .. last - 1 of a sequence, with the features the target gives for them.
            const auto commit = [&](const std::vector<token_id>& sequence, index first, index last) {
                const index m = last - first;
                const std::span<const token_id> part = std::span<const token_id>(sequence).subspan(
                    static_cast<std::size_t>(first), static_cast<std::size_t>(m));
                matrix_view<float, space> rows;
                if (width > 0 && m > 0) {
                    typename Model::cache_type cache = model.make_cache(n);
                    if (first > 0) {
                        model.forward(std::span<const token_id>(sequence).first(static_cast<std::size_t>(first)), cache,
                                      {});
                    }
                    rows = features.matrix(m, width);
                    model.forward(part, cache, {{}, rows});
                }
                const index before = drafter.context_length();
                drafter.commit(part, rows);
                found.expect(drafter.context_length() == before + m, subject, 3, "commit() of ", m,
                             " positions made context_length() ", drafter.context_length(), ", was ", before);
            };
            const auto start = [&] {
                drafter.reset();
                found.expect(drafter.context_length() == 0, subject, 4, "reset() left context_length() ",
                             drafter.context_length());
                drafter.reserve((std::min<index>)(n + longest_block, drafter.max_positions()));
            };

            // The anchor is token `at`; positions 0 .. at - 1 are committed.
            const index at = 1 + die.below(n - 1);
            const index block = 1 + die.below((std::min<index>)(longest_block, drafter.max_positions() - at));
            std::vector<index> pieces;
            for (index done = 0; done < at; done += pieces.back()) {
                pieces.push_back(1 + die.below(at - done));
            }

            // The context in pieces; between them, if wanted, proposals and strangers that are cropped away again.
            const auto drafts = [&](bool strangers) {
                start();
                index done = 0;
                for (const index piece : pieces) {
                    commit(tokens, done, done + piece);
                    done += piece;
                    if (strangers && done < at) {
                        propose(committed(done + 1),
                                1 + die.below((std::min<index>)(longest_block, drafter.max_positions() - done)));
                        commit(strange, done, at);
                        drafter.crop(done);
                        found.expect(drafter.context_length() == done, subject, 4, "crop(", done,
                                     ") made context_length() ", drafter.context_length());
                    }
                }
                return propose(committed(at + 1), block);
            };

            // Twice after itself: a drafter that does not repeat itself then is one that throws dice, which is legal,
            // and can only be held to its book-keeping.
            drafts(false);
            const std::vector<token_id> once = drafts(false);
            const bool repeats = drafts(false) == once;
            const bool same = drafts(true) == once;
            found.expect(!repeats || same, subject, 4,
                         "positions that were cropped away changed the drafts at position ", at + 1);

            // After another sequence.
            start();
            commit(strange, 0, n - 1);
            found.expect(!repeats || drafts(false) == once, subject, 4,
                         "a former sequence changed the drafts at position ", at + 1);
        }
        drafter.reset();
    });
}

}  // namespace testing

DFLASH_END_NAMESPACE
