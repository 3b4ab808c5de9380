// The account of one sequence: a block of tokens and the same tokens one by one are cut alike.
#include <doctest/doctest.h>

#include <dflash/decode/ledger.hpp>
#include <dflash/testing/report.hpp>

namespace dflash::test {

namespace {

using ids = std::vector<token_id>;

}  // namespace

TEST_CASE("a block is cut where its tokens one by one are") {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        testing::dice die(seed);
        generation_limits limits;
        limits.max_new_tokens = die.below(16);
        limits.stop_tokens = die.tokens(die.below(3), 7);
        for (index s = die.below(3); s > 0; --s) {
            limits.stop_sequences.push_back(die.tokens(1 + die.below(4), 4));
        }
        limits.context_limit = die.below(2) == 0 ? 0 : 3 + die.below(16);
        const ids prompt = die.tokens(1 + die.below(3), 7);
        ledger blocks(prompt, limits, 7, 30);
        ledger singles(prompt, limits, 7, 30);
        while (!blocks.finished()) {
            const ids round = die.tokens(1 + die.below(6), die.below(2) == 0 ? 7 : 3);
            const index room = blocks.room();
            const index kept = blocks.cut(round);
            CHECK(kept == blocks.cut(round));
            CHECK(kept >= 1);
            CHECK(kept <= room);
            index one_by_one = 0;
            for (const token_id token : round) {
                if (singles.finished()) {
                    break;
                }
                CHECK(singles.cut(std::span<const token_id>(&token, 1)) == 1);
                singles.append({&token, 1});
                ++one_by_one;
            }
            CHECK(kept == one_by_one);
            blocks.append(std::span<const token_id>(round).first(static_cast<std::size_t>(kept)));
            CHECK(ids(blocks.tokens().begin(), blocks.tokens().end()) ==
                  ids(singles.tokens().begin(), singles.tokens().end()));
            CHECK(blocks.reason() == singles.reason());
        }
        CHECK(singles.finished());
        CHECK(blocks.committed() == blocks.prompt_length() + size_of(blocks.generated()));
    }
}

TEST_CASE("stop sequences match generated tokens only, across appends") {
    generation_limits limits;
    limits.stop_sequences = {{4, 5, 4, 6}};
    ledger book(ids{4, 5}, limits, 10, 100);
    book.append(ids{4, 6, 4, 5});
    CHECK_FALSE(book.finished());
    CHECK(book.cut(ids{4, 5, 4, 6, 1}) == 4);
    CHECK(book.cut(ids{4, 6, 1}) == 2);
    CHECK(book.cut(ids{4, 5}) == 2);
    book.append(ids{4});
    book.append(ids{6});
    CHECK(book.reason() == finish_reason::stop);
    CHECK(book.generated().size() == 6);
}

TEST_CASE("a stop at the very end of the budget is a stop") {
    generation_limits limits;
    limits.max_new_tokens = 2;
    limits.stop_tokens = {3};
    ledger book(ids{1}, limits, 10, 3);
    CHECK(book.cut(ids{5, 3, 3}) == 2);
    book.append(ids{5, 3});
    CHECK(book.reason() == finish_reason::stop);
    ledger both(ids{1}, limits, 10, 3);  // budget and context end together: the budget is named
    both.append(ids{5, 5});
    CHECK(both.reason() == finish_reason::length);
    ledger context(ids{1}, {}, 10, 2);
    context.append(ids{5});
    CHECK(context.reason() == finish_reason::context);
    context.cancel();
    CHECK(context.reason() == finish_reason::context);
    ledger cancelled(ids{1}, {}, 10, 2);
    cancelled.cancel();
    CHECK(cancelled.reason() == finish_reason::cancelled);
    CHECK(name_of(finish_reason::running) == "running");
}

TEST_CASE("room is the smaller of budget and context") {
    generation_limits limits;
    limits.max_new_tokens = 5;
    limits.context_limit = 4;
    CHECK(ledger(ids{1}, limits, 10, 100).room() == 3);
    limits.context_limit = 0;
    CHECK(ledger(ids{1}, limits, 10, 100).room() == 5);
    CHECK(ledger(ids{1}, limits, 10, 4).room() == 3);
    limits.max_new_tokens = 0;
    CHECK(ledger(ids{1}, limits, 10, 100).finished());
}

}  // namespace dflash::test
