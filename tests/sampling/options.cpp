// What makes no sense is refused, with the option's name and the number.
#include <doctest/doctest.h>

#include <string>

#include <dflash/decode/typical_acceptance.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/sampling/penalties.hpp>

namespace dflash::test {

namespace {

std::string refusal(const sampling_options& options) {
    try {
        check(options);
    } catch (const config_error& failure) {
        // Whoever takes options refuses the same.
        CHECK_THROWS_AS(categorical<>{options}, config_error);
        CHECK_THROWS_AS(coupled_drafts<>{options}, config_error);
        CHECK_THROWS_AS(sampled_drafts<>{options}, config_error);
        return failure.what();
    }
    return "";
}

bool names(const std::string& message, const char* option) {
    return message.rfind(option, 0) == 0 && message.find("needs") != std::string::npos;
}

}  // namespace

TEST_CASE("sampling options") {
    const float nan = numerics::not_a_number;
    const float inf = numerics::infinity;
    CHECK(refusal({}) == "");
    for (const float t : {-1.0F, -1e-45F, nan, inf, -inf}) {
        CHECK(names(refusal({.temperature = t}), "temperature: got"));
    }
    for (const float p : {0.0F, -0.5F, 1.0001F, nan, inf}) {
        CHECK(names(refusal({.top_p = p}), "top_p: got"));
    }
    for (const float p : {-0.1F, 1.5F, nan}) {
        CHECK(names(refusal({.min_p = p}), "min_p: got"));
    }
    CHECK(names(refusal({.top_k = -1}), "top_k: got -1"));
    CHECK(names(refusal({.biases = {{0, nan}}}), "logit_bias: token 0 has nan"));
    CHECK(names(refusal({.biases = {{4, inf}}}), "logit_bias: token 4"));
    CHECK(names(refusal({.biases = {{-1, 0.0F}}}), "logit_bias: entry 0 is for token -1"));
    CHECK(refusal({.biases = {{4, 1.0F}, {4, 2.0F}}}).rfind("logit_bias: token 4 is given twice", 0) == 0);
    CHECK(refusal({.temperature = 0, .top_k = 5, .top_p = 1, .min_p = 1, .biases = {{0, -inf}}}) == "");
}

TEST_CASE("penalties and typical acceptance") {
    const float nan = numerics::not_a_number;
    for (const float r : {0.0F, -1.0F, nan, numerics::infinity}) {
        CHECK_THROWS_AS(penalties({.repetition = r}), config_error);
    }
    CHECK_THROWS_AS(penalties({.frequency = nan}), config_error);
    CHECK_THROWS_AS(penalties({.presence = 1e7F}), config_error);
    CHECK_THROWS_AS(typical_acceptance({.epsilon = nan}), config_error);
    CHECK_THROWS_AS(typical_acceptance({.delta = 1.5F}), config_error);
}

}  // namespace dflash::test
