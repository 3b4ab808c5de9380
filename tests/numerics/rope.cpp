#include <doctest/doctest.h>
#include <dflash/numerics/rope.hpp>

#include <string>

#include "numerics/support.hpp"

using dflash::config_error;
using dflash::numerics::rope_parameters;
using dflash::numerics::rope_scaling_kind;
using dflash::numerics::rope_table;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

namespace numerics = dflash::numerics;

namespace {

constexpr double pi = 3.14159265358979323846;

std::vector<float> frequencies(const rope_parameters& p, index head_dim) {
    std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
    numerics::rope_inverse_frequencies(p, head_dim, out.data());
    return out;
}

/// theta^(-2i/e) with libm.
double plain(const rope_parameters& p, index head_dim, index i) {
    return std::pow(p.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
}

double llama3(const rope_parameters& p, index head_dim, index i) {
    const double f = plain(p, head_dim, i);
    const double turns = p.original_max_position * f / (2.0 * pi);
    if (turns > p.high_freq_factor) {
        return f;
    }
    if (turns < p.low_freq_factor) {
        return f / p.factor;
    }
    const double keep = (turns - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
    return keep * f + (1.0 - keep) * f / p.factor;
}

double yarn(const rope_parameters& p, index head_dim, index i) {
    const auto e = static_cast<double>(head_dim);
    const auto pair_of = [&](double rotations) {
        return e * std::log(p.original_max_position / (2.0 * pi * rotations)) / (2.0 * std::log(p.theta));
    };
    double low = pair_of(p.beta_fast);
    double high = pair_of(p.beta_slow);
    if (p.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = (std::max)(low, 0.0);
    high = (std::min)(high, e - 1.0);
    if (low == high) {
        high += 0.001;
    }
    const double ramp = (std::min)((std::max)((static_cast<double>(i) - low) / (high - low), 0.0), 1.0);
    const double f = plain(p, head_dim, i);
    return (1.0 - ramp) * f + ramp * f / p.factor;
}

template <class Formula>
void check_frequencies(const rope_parameters& p, index head_dim, Formula formula) {
    const std::vector<float> got = frequencies(p, head_dim);
    for (index i = 0; i < head_dim / 2; ++i) {
        const double wanted = formula(p, head_dim, i);
        REQUIRE_MESSAGE(numerics_test::ulps(got[static_cast<std::size_t>(i)], wanted) <= 0.5001, "pair ", i);
    }
}

rope_parameters llama31() {
    rope_parameters p;
    p.theta = 500000.0;
    p.kind = rope_scaling_kind::llama3;
    p.factor = 8.0;
    p.low_freq_factor = 1.0;
    p.high_freq_factor = 4.0;
    p.original_max_position = 8192.0;
    return p;
}

rope_parameters qwen_yarn() {
    rope_parameters p;
    p.theta = 1000000.0;
    p.kind = rope_scaling_kind::yarn;
    p.factor = 4.0;
    p.original_max_position = 32768.0;
    return p;
}

bool says(const rope_parameters& p, index head_dim, const std::string& first, const std::string& second) {
    try {
        frequencies(p, head_dim);
    } catch (const config_error& e) {
        const std::string text = e.what();
        return text.find(first) != std::string::npos && text.find(second) != std::string::npos;
    }
    return false;
}

}  // namespace

TEST_CASE("inverse frequencies by hand") {
    rope_parameters p;
    p.theta = 10000.0;
    // 10000^0, ^-1/4, ^-1/2, ^-3/4
    CHECK(same(frequencies(p, 8), {1.0F, 0.1F, 0.01F, 0.001F}));
    p.kind = rope_scaling_kind::linear;
    p.factor = 4.0;
    CHECK(same(frequencies(p, 8), {0.25F, 0.025F, 0.0025F, 0.00025F}));
}

TEST_CASE("inverse frequencies agree with libm for all scalings") {
    for (const index head_dim : {2, 16, 64, 80, 128, 256}) {
        for (const double theta : {10000.0, 500000.0, 1e6, 5e6}) {
            rope_parameters p;
            p.theta = theta;
            check_frequencies(p, head_dim, plain);
        }
    }
    check_frequencies(llama31(), 128, llama3);
    rope_parameters small = llama31();
    small.factor = 32.0;
    check_frequencies(small, 64, llama3);
    small.original_max_position = 16.0;  // short contexts put the blend among the first pairs
    check_frequencies(small, 16, llama3);

    check_frequencies(qwen_yarn(), 128, yarn);
    rope_parameters fractional = qwen_yarn();
    fractional.truncate = false;
    check_frequencies(fractional, 128, yarn);
    CHECK_FALSE(same(frequencies(fractional, 128), frequencies(qwen_yarn(), 128)));
    rope_parameters narrow = qwen_yarn();
    narrow.beta_fast = 2.0;
    narrow.beta_slow = 2.0;
    narrow.truncate = false;
    check_frequencies(narrow, 64, yarn);
    narrow.original_max_position = 8.0;  // the ramp's start falls below pair 0
    check_frequencies(narrow, 16, yarn);
}

TEST_CASE("llama3 keeps high frequencies, divides low ones, blends between") {
    const std::vector<float> scaled = frequencies(llama31(), 128);
    rope_parameters p;
    p.theta = 500000.0;
    const std::vector<float> kept = frequencies(p, 128);
    CHECK(same(scaled.front(), kept.front()));
    CHECK(same(scaled.back(), kept.back() / 8.0F));
    int blended = 0;
    for (std::size_t i = 0; i < 64; ++i) {
        blended += scaled[i] < kept[i] && scaled[i] > kept[i] / 8.0F ? 1 : 0;
    }
    CHECK(blended > 0);
}

TEST_CASE("the attention factor of yarn") {
    rope_parameters p = qwen_yarn();
    const auto factor = [&] { return static_cast<double>(numerics::rope_attention_factor(p)); };
    CHECK(std::fabs(factor() - (0.1 * std::log(4.0) + 1.0)) < 1e-7);
    p.mscale = 0.5;  // alone it counts for nothing
    CHECK(std::fabs(factor() - (0.1 * std::log(4.0) + 1.0)) < 1e-7);
    p.mscale_all_dim = 0.25;
    CHECK(std::fabs(factor() - (0.05 * std::log(4.0) + 1.0) / (0.025 * std::log(4.0) + 1.0)) < 1e-7);
    p.mscale_all_dim = 0.5;
    CHECK(factor() == 1.0);
    p.attention_factor = 1.75;
    CHECK(factor() == 1.75);
    p.attention_factor = 0.0;
    p.mscale = 0.0;
    p.factor = 0.5;
    CHECK(factor() == 1.0);
    p.kind = rope_scaling_kind::llama3;
    p.attention_factor = 1.75;
    CHECK(factor() == 1.0);
}

TEST_CASE("tables hold cos and sin of the f32 angle") {
    rope_parameters p;
    p.theta = 1000000.0;
    const rope_table table(p, 64, 700);
    CHECK(table.positions() == 700);
    CHECK(table.half() == 32);
    const std::vector<float> inv_freq = frequencies(p, 64);
    long missed = 0;
    for (index pos = 0; pos < 700; ++pos) {
        for (index i = 0; i < 32; ++i) {
            const float angle = static_cast<float>(pos) * inv_freq[static_cast<std::size_t>(i)];
            missed += table.cos(pos)[i] != static_cast<float>(std::cos(static_cast<double>(angle))) ? 1 : 0;
            missed += table.sin(pos)[i] != static_cast<float>(std::sin(static_cast<double>(angle))) ? 1 : 0;
        }
    }
    CHECK(missed == 0);  // out of 44,800: a float's neighbour is chosen once in millions
    CHECK(same(table.cos(0)[5], 1.0F));
    CHECK(same(table.sin(0)[5], 0.0F));
    CHECK_THROWS_AS(static_cast<void>(table.cos(700)), dflash::contract_error);
    CHECK_THROWS_AS(static_cast<void>(table.sin(-1)), dflash::contract_error);
}

TEST_CASE("a longer table starts with the shorter one") {
    const rope_table shorter(qwen_yarn(), 16, 40);
    const rope_table longer(qwen_yarn(), 16, 90);
    for (index pos = 0; pos < 40; ++pos) {
        for (index i = 0; i < 8; ++i) {
            REQUIRE(same(shorter.cos(pos)[i], longer.cos(pos)[i]));
            REQUIRE(same(shorter.sin(pos)[i], longer.sin(pos)[i]));
        }
    }
}

TEST_CASE("yarn's factor multiplies the rounded tables") {
    rope_parameters p = qwen_yarn();
    p.attention_factor = 1.0;
    const rope_table bare(p, 16, 50);
    p.attention_factor = 1.1386294;
    const rope_table scaled(p, 16, 50);
    const auto factor = static_cast<float>(p.attention_factor);
    for (index pos = 0; pos < 50; ++pos) {
        for (index i = 0; i < 8; ++i) {
            REQUIRE(same(scaled.cos(pos)[i], bare.cos(pos)[i] * factor));
            REQUIRE(same(scaled.sin(pos)[i], bare.sin(pos)[i] * factor));
        }
    }
}

TEST_CASE("injected tables: quarter turns") {
    // Position p turns each pair by p quarter turns.
    const rope_table turns({1.0F, 0.0F, -1.0F, 0.0F}, {0.0F, 1.0F, 0.0F, -1.0F}, 2, 4);
    const std::vector<std::vector<float>> wanted = {{3.0F, 4.0F}, {-4.0F, 3.0F}, {-3.0F, -4.0F}, {4.0F, -3.0F}};
    for (index pos = 0; pos < 4; ++pos) {
        std::vector<float> x = {3.0F, 4.0F};
        numerics::rope_half(x.data(), turns.cos(pos), turns.sin(pos), 2);
        CHECK(x == wanted[static_cast<std::size_t>(pos)]);
        x = {3.0F, 4.0F};
        numerics::rope_interleaved(x.data(), turns.cos(pos), turns.sin(pos), 2);
        CHECK(x == wanted[static_cast<std::size_t>(pos)]);
    }
    CHECK_THROWS_AS(rope_table({1.0F, 0.0F}, {0.0F, 1.0F, 0.0F}, 2, 3), config_error);
    CHECK_THROWS_AS(rope_table({1.0F, 0.0F, 0.0F}, {0.0F, 1.0F}, 2, 3), config_error);
    CHECK_THROWS_AS(rope_table({1.0F}, {0.0F}, 3, 1), config_error);
    CHECK_THROWS_WITH_AS(rope_table({1.0F, 0.0F}, {0.0F, 1.0F}, 4, 3), "rope cos table: got 2 numbers, needs 6",
                         config_error);
}

TEST_CASE("the two pairings are one rotation of different pairs") {
    const std::vector<float> x = noise(12, 1);
    const std::vector<float> cos = noise(6, 2);
    const std::vector<float> sin = noise(6, 3);
    std::vector<float> half = x;
    numerics::rope_half(half.data(), cos.data(), sin.data(), 12);
    std::vector<float> interleaved(12);
    for (std::size_t i = 0; i < 6; ++i) {
        interleaved[2 * i] = x[i];
        interleaved[2 * i + 1] = x[i + 6];
    }
    numerics::rope_interleaved(interleaved.data(), cos.data(), sin.data(), 12);
    for (std::size_t i = 0; i < 6; ++i) {
        const volatile float second = x[i + 6] * sin[i];
        const volatile float first = x[i] * sin[i];
        REQUIRE(same(half[i], std::fma(x[i], cos[i], -second)));
        REQUIRE(same(half[i + 6], std::fma(x[i + 6], cos[i], first)));
        REQUIRE(same(interleaved[2 * i], half[i]));
        REQUIRE(same(interleaved[2 * i + 1], half[i + 6]));
    }
}

TEST_CASE("parameters that cannot work are refused with both numbers") {
    rope_parameters p;
    CHECK(says(p, 7, "head_dim: got 7", "even"));
    CHECK(says(p, 0, "head_dim: got 0", "even"));
    p.theta = 1.0;
    CHECK(says(p, 8, "theta: got 1.0", "more than 1"));
    p = llama31();
    p.factor = 0.0;
    CHECK(says(p, 8, "factor: got 0", "more than 0"));
    p = llama31();
    p.original_max_position = 0.0;
    CHECK(says(p, 8, "original_max_position: got 0", "more than 0"));
    p = llama31();
    p.high_freq_factor = 1.0;
    CHECK(says(p, 8, "high_freq_factor: got 1.0", "low_freq_factor 1.0"));
    p = qwen_yarn();
    p.beta_slow = 64.0;
    CHECK(says(p, 8, "beta_fast: got 32", "beta_slow 64"));
    p = qwen_yarn();
    p.factor = numerics::not_a_number64;
    CHECK(says(p, 8, "factor: got", "more than 0"));
    CHECK_THROWS_AS(rope_table(rope_parameters{}, 8, -1), config_error);
}
