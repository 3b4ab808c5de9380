#include "support/tokenizer_merges.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

using dflash::token_id;
using dflash::examples::merge_table;
using ids = std::vector<token_id>;

ids applied(const merge_table& table, const ids& symbols) {
    ids out;
    table.apply(symbols, out);
    return out;
}

/// The definition, word for word: look for the best pair, merge the leftmost one, start again.
ids by_definition(const std::vector<std::pair<std::pair<token_id, token_id>, token_id>>& merges, ids symbols) {
    for (;;) {
        std::size_t best = merges.size();
        std::size_t place = 0;
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
            for (std::size_t rank = 0; rank < best; ++rank) {
                if (merges[rank].first == std::pair(symbols[i], symbols[i + 1])) {
                    best = rank;
                    place = i;
                }
            }
        }
        if (best == merges.size()) {
            return symbols;
        }
        symbols[place] = merges[best].second;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
}

}  // namespace

TEST_CASE("rank decides, then the place") {
    merge_table table;
    CHECK(table.add(1, 2, 10));
    CHECK(table.add(2, 3, 11));
    CHECK(table.add(1, 1, 12));
    CHECK_FALSE(table.add(2, 3, 13));
    CHECK(applied(table, {1, 2, 3}) == ids{10, 3});
    CHECK(applied(table, {2, 3, 1}) == ids{11, 1});
    CHECK(applied(table, {1, 1, 1}) == ids{12, 1});
    CHECK(applied(table, {1, 1, 2}) == ids{1, 10});
    CHECK(applied(table, {5}) == ids{5});
    CHECK(applied(table, {}).empty());
}

TEST_CASE("results are appended") {
    const merge_table table;
    ids out{9};
    table.apply(ids{1, 2}, out);
    CHECK(out == ids{9, 1, 2});
}

TEST_CASE("random tables merge as the definition says") {
    std::mt19937 random(11);
    for (int round = 0; round < 300; ++round) {
        merge_table table;
        std::vector<std::pair<std::pair<token_id, token_id>, token_id>> merges;
        token_id next = 3;
        for (int i = 0; i < 25; ++i) {
            const auto pick = [&] { return static_cast<token_id>(random() % static_cast<unsigned>(next)); };
            const std::pair pair(pick(), pick());
            if (table.add(pair.first, pair.second, next)) {
                merges.emplace_back(pair, next++);
            }
        }
        ids symbols(random() % 60);
        for (token_id& s : symbols) {
            s = static_cast<token_id>(random() % 3);
        }
        REQUIRE(applied(table, symbols) == by_definition(merges, symbols));
    }
}
