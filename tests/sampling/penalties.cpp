// Penalties by their formulas: what counts, how often, in which order.
#include <doctest/doctest.h>

#include <vector>

#include <dflash/sampling/penalties.hpp>

namespace dflash::test {

namespace {

std::vector<float> after(const penalty_options& options, const std::vector<token_id>& prompt,
                         const std::vector<token_id>& text, std::vector<float> logits) {
    penalties paid(options);
    for (const token_id token : prompt) {
        paid.advance(token);
    }
    paid.start();
    for (const token_id token : text) {
        paid.advance(token);
    }
    paid.apply(logits);
    return logits;
}

using row = std::vector<float>;

}  // namespace

TEST_CASE("each penalty by itself") {
    const row logits = {2.0F, -2.0F, 0.0F, 4.0F};
    CHECK(after({}, {0, 1}, {2, 3}, logits) == logits);
    CHECK(after({.repetition = 2}, {0}, {1, 1}, logits) == row{1.0F, -4.0F, 0.0F, 4.0F});
    CHECK(after({.frequency = 0.5F}, {0, 0}, {3, 3, 1}, logits) == row{2.0F, -2.5F, 0.0F, 3.0F});
    CHECK(after({.presence = 0.5F}, {0, 0}, {3, 3, 1}, logits) == row{2.0F, -2.5F, 0.0F, 3.5F});
    CHECK(after({.presence = -0.5F}, {}, {0}, logits) == row{2.5F, -2.0F, 0.0F, 4.0F});
}

TEST_CASE("together: repetition first") {
    CHECK(after({.repetition = 2, .frequency = 0.25F, .presence = 1}, {}, {0, 0}, {4.0F, 1.0F}) == row{0.5F, 1.0F});
}

TEST_CASE("forbidden stays forbidden, finite stays finite") {
    const float gone = -numerics::infinity;
    CHECK(after({.repetition = 2, .frequency = 1, .presence = 1}, {}, {0}, {gone, 0.0F}) == row{gone, 0.0F});
    CHECK(numerics::is_finite(after({.repetition = 1e-6F}, {}, {0}, {3e38F})[0]));
    CHECK(numerics::is_finite(after({.frequency = -1e6F}, {}, {0}, {0x1.fffffep127F})[0]));
}

}  // namespace dflash::test
