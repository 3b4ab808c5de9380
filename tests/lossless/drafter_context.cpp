// The context of a DFlash draft: in whatever pieces it comes, is taken back and comes again, drafts and the bits of
// their logits are those of one pass over all of it. And a draft whose positions end before the target's.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support/batched_equals_serial.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using target = target_transformer<cpu::exact>;
using draft = draft_transformer<cpu::exact>;

struct logit_recorder {
    std::vector<float>* logits;
    void operator()(const tensor_event<>& event) const {
        logits->clear();
        for (index r = 0; r < event.rows.rows(); ++r) {
            logits->insert(logits->end(), event.rows.row(r).begin(), event.rows.row(r).end());
        }
    }
};

using drafter_type = dflash_drafter<draft, target, logit_recorder>;

/// One block of drafts and the logits they were chosen from.
struct proposal {
    std::vector<token_id> drafts;
    std::vector<float> logits;

    void check(const proposal& other) const {
        CHECK(drafts == other.drafts);
        const auto difference = first_difference("draft logits", logits, other.logits, 0);
        CHECK_MESSAGE(!difference, difference.value_or(""));
    }
};

/// A sliding and a full draft layer, and a context of more rows than the 1024 that may wait.
class long_context {
public:
    static constexpr index rows = 1600;
    static constexpr index block = 8;

    explicit long_context(std::uint64_t seed) {
        make_random_pair(pair_, seed);
        REQUIRE(pair_.draft.layers == 2);
        pair_.target.max_positions = pair_.draft.max_positions = 4096;
        pair_.draft.masks = {{.causal = true, .window = 700}, {.causal = false, .window = 0}};
        big_.emplace(pair_.target, pair_.target_tensors, pair_.draft.taps);
        small_.emplace(pair_.draft, pair_.draft_tensors);
        right = some_features(seed);
        wrong = some_features(seed + 1);
        random_source random(seed);
        for (index i = 0; i <= rows; ++i) {
            tokens_.push_back(static_cast<token_id>(random.between(0, pair_.target.vocab_size - 1)));
        }
    }

    [[nodiscard]] drafter_type make_drafter() { return {*small_, *big_, logit_recorder{&seen_}}; }

    /// Positions from..to - 1. The memory is written over at once, as a decoder does.
    void commit(drafter_type& drafter, const std::vector<float>& features, index from, index to) {
        const index width = small_->feature_size();
        std::vector<float> lent(features.begin() + from * width, features.begin() + to * width);
        drafter.commit(std::span(tokens_).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)),
                       matrix_view<const float>(lent.data(), to - from, width));
        std::ranges::fill(lent, std::numeric_limits<float>::quiet_NaN());
        CHECK(drafter.context_length() == to);
    }

    [[nodiscard]] proposal propose(drafter_type& drafter) {
        proposal out;
        out.drafts.resize(block - 1);
        draft_output<> answer{.tokens = out.drafts, .count = 0, .law = {}};
        drafter.propose({.committed = tokens_, .block = block, .noise = {}}, answer);
        CHECK(answer.count == block - 1);
        CHECK(drafter.context_length() == rows);
        out.logits = seen_;
        return out;
    }

    /// The same without a drafter: all rows injected in one go.
    [[nodiscard]] proposal expected() {
        auto cache = small_->make_cache(rows + block);
        small_->inject(matrix_view<const float>(right.data(), rows, small_->feature_size()), cache);
        std::vector<token_id> slots(block, pair_.draft.mask_token);
        slots[0] = tokens_.back();
        buffer<float> embeddings(block * big_->hidden_size());
        buffer<float> hidden(block * big_->hidden_size());
        const matrix_view<float> hidden_rows = hidden.matrix(block, big_->hidden_size());
        big_->embed(slots, embeddings.matrix(block, big_->hidden_size()));
        small_->forward(embeddings.matrix(block, big_->hidden_size()), cache, hidden_rows);
        proposal out;
        out.logits.resize(static_cast<std::size_t>((block - 1) * big_->vocab_size()));
        const matrix_view<float> logits(out.logits.data(), block - 1, big_->vocab_size());
        big_->head(hidden_rows.rows(1, block - 1), logits);
        for (index r = 0; r < block - 1; ++r) {
            out.drafts.push_back(greedy{}.pick(logits.row(r), 0));
        }
        return out;
    }

    std::vector<float> right;  // (rows, k*d)
    std::vector<float> wrong;

private:
    [[nodiscard]] std::vector<float> some_features(std::uint64_t seed) const {
        random_source random(seed);
        std::vector<float> out(static_cast<std::size_t>(rows * small_->feature_size()));
        for (float& x : out) {
            x = random.normal();
        }
        return out;
    }

    random_pair pair_;
    std::optional<target> big_;
    std::optional<draft> small_;
    std::vector<token_id> tokens_;  // of the context, and the anchor
    std::vector<float> seen_;
};

/// Seeds of pairs with two draft layers.
constexpr std::uint64_t deep_seeds[] = {3, 4};

}  // namespace

TEST_CASE("drafts and the bits of their logits do not depend on the pieces in which the context came") {
    const std::vector<std::vector<index>> ways = {{1600},      {1024, 576}, {1023, 577}, {1000, 600},
                                                  {1025, 575}, {1, 1599},   {576, 1024}, std::vector<index>(1600, 1)};
    for (const std::uint64_t seed : deep_seeds) {
        long_context scene(seed);
        const proposal expected = scene.expected();
        const auto check = [&](const std::vector<index>& pieces, index reserved) {
            INFO("seed " << seed << ", pieces of " << pieces.front() << " and " << pieces.back());
            drafter_type drafter = scene.make_drafter();
            drafter.reserve(reserved);
            index done = 0;
            for (const index count : pieces) {
                scene.commit(drafter, scene.right, done, done + count);
                done += count;
            }
            REQUIRE(done == long_context::rows);
            scene.propose(drafter).check(expected);
        };
        for (const std::vector<index>& pieces : ways) {
            check(pieces, 1);
        }
        check({256, 256, 256, 256, 256, 256, 64}, 1);
        check({256, 256, 256, 256, 256, 256, 64}, 1700);
    }
}

TEST_CASE("context rows may be taken back, those that wait and those that are projected") {
    for (const std::uint64_t seed : deep_seeds) {
        long_context scene(seed);
        const proposal expected = scene.expected();
        for (const index cut : {0, 1, 700, 999, 1000, 1001, 1300, 1599, 1600}) {
            INFO("seed " << seed << ", cropped to " << cut);
            std::vector<float> features = scene.wrong;  // right up to the cut
            std::copy_n(scene.right.begin(), cut * size_of(std::span(features)) / long_context::rows, features.begin());
            drafter_type drafter = scene.make_drafter();
            const auto retake = [&](const std::vector<float>& rest) {
                drafter.crop(cut);
                CHECK(drafter.context_length() == cut);
                if (cut < long_context::rows) {
                    scene.commit(drafter, rest, cut, long_context::rows);
                }
                return scene.propose(drafter);
            };
            scene.commit(drafter, features, 0, 1000);
            scene.commit(drafter, features, 1000, long_context::rows);  // 1000 are projected now, 600 wait
            retake(scene.right).check(expected);
            retake(scene.wrong);  // now all are projected
            retake(scene.right).check(expected);
        }
    }
}

TEST_CASE("a draft whose positions end before the target's drafts up to there, and the text stays serial") {
    random_pair pair;
    make_random_pair(pair, 8);
    target big(pair.target, pair.target_tensors, pair.draft.taps);
    REQUIRE(pair.target.max_positions == 1024);
    random_source random(8);
    std::vector<token_id> tokens;
    for (index i = 0; i < 60; ++i) {
        tokens.push_back(static_cast<token_id>(random.between(0, pair.target.vocab_size - 1)));
    }
    serial_decoder<target> oracle(big);
    index drafted = 0;
    index accepted = 0;
    for (index limit = 1; limit <= 40; ++limit) {
        draft_shape shape = pair.draft;
        shape.max_positions = limit;
        draft small(shape, pair.draft_tensors);
        dflash_drafter drafter(small, big);
        CHECK(drafter.max_positions() == limit);
        for (const index prompt_length : {index{3}, limit, limit + 4}) {
            const auto prompt = std::span<const token_id>(tokens).first(static_cast<std::size_t>(prompt_length));
            generation_limits limits;
            limits.max_new_tokens = (std::max)(index{6}, limit + 6 - prompt_length);
            const std::vector<token_id> text = oracle.generate(prompt, limits).tokens;
            REQUIRE(size_of(std::span(text)) == limits.max_new_tokens);
            for (index block = 1; block <= 8; ++block) {
                INFO("limit " << limit << ", prompt of " << prompt_length << ", block " << block);
                limits.prefill_chunk = block % 2 == 0 ? 3 : 256;
                speculative_decoder<target, decltype(drafter)> decoder(big, drafter, fixed_block(block));
                index committed = 0;
                const generation_result got = decoder.generate(prompt, limits, [&](const round_view& round) {
                    if (committed == 0) {  // what prefill gave
                        committed = prompt_length + 1;
                        return;
                    }
                    const index left = prompt_length + limits.max_new_tokens - committed;
                    const index fits = (std::min)({block, limit - committed, left});
                    CHECK(round.drafted == (std::max)(index{0}, fits - 1));
                    committed += size_of(round.tokens);
                });
                CHECK(got.tokens == text);
                CHECK(drafter.context_length() <= limit);
                drafted += got.stats.drafted;
                accepted += got.stats.accepted;
            }
        }
    }
    CHECK(drafted > 1000);
    CHECK(accepted > 100);
}

}  // namespace dflash::test
