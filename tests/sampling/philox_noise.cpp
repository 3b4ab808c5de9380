// Philox against published words; draws against a plain Gumbel-max; chances at their ends and in frequency.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <dflash/sampling/philox_noise.hpp>
#include <dflash/testing/report.hpp>

namespace dflash::test {

namespace {

bool equal(const numerics::philox_block& a, std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
    return a.word[0] == x && a.word[1] == y && a.word[2] == z && a.word[3] == w;
}

/// The definition, without shortcuts.
token_id plain_draw(noise_key key, noise_stream stream, index position, std::span<const float> scores) {
    token_id best = no_token;
    float value = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] == -numerics::infinity) {
            continue;
        }
        const auto id = static_cast<token_id>(i);
        const float noisy = scores[i] + philox_noise::gumbel(key, stream, position, id);
        if (best == no_token || noisy > value) {
            best = id;
            value = noisy;
        }
    }
    return best;
}

static_assert(noise_source<philox_noise>);

}  // namespace

TEST_CASE("philox4x32-10: the published answers") {
    CHECK(equal(numerics::philox4x32({{0, 0, 0, 0}}, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
    CHECK(equal(numerics::philox4x32({{~0U, ~0U, ~0U, ~0U}}, ~std::uint64_t{0}), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                0x6d5451fd));
    CHECK(equal(numerics::philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822U),
                0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST_CASE("noise is a function of seed, stream, position and token, of all of each") {
    std::set<float> seen;
    const std::uint64_t seeds[] = {0, 1, std::uint64_t{1} << 32, ~std::uint64_t{0}};
    const noise_stream streams[] = {noise_stream::token, noise_stream::draft, noise_stream::accept,
                                    noise_stream::redraw};
    const index positions[] = {0, 1, index{1} << 32, (index{1} << 32) + 1};
    int count = 0;
    for (const std::uint64_t seed : seeds) {
        for (const noise_stream stream : streams) {
            for (const index position : positions) {
                for (const token_id token : {0, 1, 2, 3, 4, 151935}) {
                    const float g = philox_noise::gumbel({seed}, stream, position, token);
                    CHECK(g == philox_noise::gumbel({seed}, stream, position, token));
                    seen.insert(g);
                    ++count;
                }
            }
        }
    }
    CHECK(static_cast<int>(seen.size()) >= count - 1);  // one clash would be chance, more would be a lost input
}

TEST_CASE("the frozen choices of seed 42") {
    // A change here changes every sampled text: it belongs under "Bits" in the changelog.
    CHECK(philox_noise::gumbel({42}, noise_stream::token, 7, 0) == 0x1.4dfa7cp-1F);
    CHECK(philox_noise::gumbel({42}, noise_stream::token, 7, 5) == 0x1.82289cp-1F);
    CHECK(philox_noise::uniform({42}, noise_stream::accept, 7) == 0x1.a91eabf76450ep-1);
}

TEST_CASE("draws are Gumbel-max, shortcuts or not") {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        testing::dice die(seed);
        std::vector<float> scores(static_cast<std::size_t>(1 + die.below(seed % 50 == 0 ? 3000 : 40)));
        const index kind = die.below(5);
        for (float& s : scores) {
            s = kind == 0 ? 0.0F : -30.0F * die.fraction();
            s = kind == 1 ? -0.01F * die.fraction() : s;
            s = kind == 2 && die.below(2) == 0 ? -numerics::infinity : s;
            s = kind == 3 ? -3e38F * die.fraction() : s;
        }
        const noise_key key{die.roll()};
        const index position = die.below(100000);
        CHECK(philox_noise::draw(key, noise_stream::token, position, scores) ==
              plain_draw(key, noise_stream::token, position, scores));
    }
}

TEST_CASE("among equal sums the lowest id wins, and what has no weight never does") {
    // At scores this large the noise is rounded away, so the sums tie.
    const std::vector<float> large = {-3e38F, 1e30F, 1e30F, 1e30F};
    const std::vector<float> none(5, -numerics::infinity);
    std::vector<float> lone(9, -numerics::infinity);
    lone[6] = -300.0F;
    for (index position = 0; position < 500; ++position) {
        CHECK(philox_noise::draw({3}, noise_stream::token, position, large) == 1);
        CHECK(philox_noise::draw({3}, noise_stream::token, position, none) == no_token);
        CHECK(philox_noise::draw({3}, noise_stream::token, position, lone) == 6);
    }
    CHECK(philox_noise::draw({3}, noise_stream::token, 0, {}) == no_token);
}

TEST_CASE("weighted draws: frequencies, zero weights, no weights") {
    const std::vector<double> weights = {0, 1, 0, 3, 4, 0};
    index count[6] = {};
    for (index position = 0; position < 8000; ++position) {
        ++count[philox_noise::weighted({9}, noise_stream::redraw, position, weights)];
    }
    CHECK(count[0] + count[2] + count[5] == 0);
    for (const int i : {1, 3, 4}) {
        const double expected = 1000 * weights[static_cast<std::size_t>(i)];
        CHECK(std::fabs(static_cast<double>(count[i]) - expected) < 5 * std::sqrt(expected));
    }
    CHECK(philox_noise::weighted({9}, noise_stream::redraw, 0, {}) == no_token);
    CHECK(philox_noise::weighted({9}, noise_stream::redraw, 0, std::vector<double>(3, 0.0)) == no_token);
}

TEST_CASE("happens: never, always, and in between") {
    index yes = 0;
    for (index position = 0; position < 10000; ++position) {
        CHECK_FALSE(philox_noise::happens({5}, noise_stream::accept, position, 0));
        CHECK_FALSE(philox_noise::happens({5}, noise_stream::accept, position, -1));
        CHECK(philox_noise::happens({5}, noise_stream::accept, position, 1));
        CHECK(philox_noise::happens({5}, noise_stream::accept, position, 1e300));
        yes += philox_noise::happens({5}, noise_stream::accept, position, 0.25) ? 1 : 0;
        const double u = philox_noise::uniform({5}, noise_stream::accept, position);
        CHECK((u >= 0 && u < 1));
    }
    CHECK(std::fabs(static_cast<double>(yes) - 2500) < 220);
}

}  // namespace dflash::test
