#include <dflash/model/taps.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace dflash::test {
namespace {

TEST_CASE("the default rule for tapped layers") {
    CHECK(default_taps(10, 5) == std::vector<index>{1, 2, 4, 6, 7});
    CHECK(default_taps(30, 5) == std::vector<index>{1, 8, 14, 20, 27});
    CHECK(default_taps(36, 5) == std::vector<index>{1, 9, 17, 25, 33});
    CHECK(default_taps(62, 5) == std::vector<index>{1, 16, 30, 44, 59});
    CHECK(default_taps(64, 5) == std::vector<index>{1, 16, 31, 46, 61});
    CHECK(default_taps(12, 3) == std::vector<index>{1, 5, 9});
    CHECK(default_taps(12, 2) == std::vector<index>{1, 9});
    CHECK(default_taps(12, 1) == std::vector<index>{6});
    CHECK_THROWS_AS(static_cast<void>(default_taps(3, 2)), config_error);
    CHECK_THROWS_AS(static_cast<void>(default_taps(12, 0)), config_error);
}

TEST_CASE("halves are rounded to even") {
    for (index layers = 5; layers < 80; ++layers) {
        for (index taps = 2; taps < 12; ++taps) {
            const std::vector<index> got = default_taps(layers, taps);
            for (index i = 0; i < taps; ++i) {
                // Four times the exact value, so that a half is a whole number; ties have an even answer.
                const index four = 4 * (taps - 1) + 4 * i * (layers - 4);
                const index nearest = 4 * (taps - 1) * got[static_cast<std::size_t>(i)];
                const index distance = four > nearest ? four - nearest : nearest - four;
                CHECK(distance <= 2 * (taps - 1));
                if (distance == 2 * (taps - 1)) {
                    CHECK(got[static_cast<std::size_t>(i)] % 2 == 0);
                }
            }
        }
    }
}

}  // namespace
}  // namespace dflash::test
