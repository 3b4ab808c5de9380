// Statistics count what was delivered, are finite without rounds, and know each slot.
#include <doctest/doctest.h>

#include <dflash/decode/stats.hpp>

namespace dflash::test {

TEST_CASE("no rounds, finite numbers") {
    const decode_stats s;
    CHECK(s.mean_acceptance_length() == 0.0);
    CHECK(s.acceptance_ratio() == 0.0);
}

TEST_CASE("a round that was cut counts what was kept") {
    decode_stats s;
    s.tokens = 1;
    s.record({.block = 4, .drafted = 3, .accepted = 3, .committed = 4});
    s.record({.block = 4, .drafted = 3, .accepted = 3, .committed = 2});  // a stop at the second draft
    s.record({.block = 4, .drafted = 3, .accepted = 1, .committed = 2});
    s.record({.block = 2, .drafted = 1, .accepted = 0, .committed = 1});
    s.record({.block = 1, .drafted = 0, .accepted = 0, .committed = 1});
    CHECK(s.rounds == 5);
    CHECK(s.tokens == 11);
    CHECK(s.acceptance_lengths == std::vector<index>{4, 2, 2, 1, 1});
    CHECK(s.drafted == 10);
    CHECK(s.accepted == 6);
    CHECK(s.slot_drafted == std::vector<index>{4, 3, 3});
    CHECK(s.slot_accepted == std::vector<index>{3, 2, 1});
    CHECK(s.mean_acceptance_length() == 2.0);
    CHECK(s.acceptance_ratio() == 0.6);
}

}  // namespace dflash::test
