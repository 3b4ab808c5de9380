// The regular-expression mask: exactly the tokens after which a match is still possible, and the end where one is
// there.
#include "constrained/regex_constraint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <dflash/decode/serial.hpp>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/constrained.hpp>
#include <dflash/testing/report.hpp>

namespace dflash::test {

namespace {

using examples::regex_constraint;
using examples::token_pattern;

const std::vector<std::string> texts = {"a", "b", "ab", "1", "12", "\xC3", "\xA9", "", "."};
constexpr token_id end = 7;

regex_constraint mask(const char* pattern) {
    return regex_constraint(std::make_shared<const token_pattern>(pattern, texts, std::vector<token_id>{end}));
}

std::vector<token_id> allowed(const regex_constraint& constraint) {
    std::vector<float> logits(texts.size() + 1, 1.0F);  // one id more than the tokenizer has
    constraint.apply(logits);
    std::vector<token_id> out;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        CHECK((logits[i] == 1.0F || logits[i] == -numerics::infinity));
        if (logits[i] == 1.0F) {
            out.push_back(static_cast<token_id>(i));
        }
    }
    return out;
}

using ids = std::vector<token_id>;

}  // namespace

TEST_CASE("what can still become a match is allowed, and the end where there is one") {
    regex_constraint m = mask("a+b?|[0-9]{2}");
    CHECK(allowed(m) == ids{0, 2, 3, 4});
    m.advance(0);
    CHECK(allowed(m) == ids{0, 1, 2, end});
    m.advance(2);
    CHECK(allowed(m) == ids{end});
    m.start();  // the prompt does not count
    m.advance(3);
    CHECK(allowed(m) == ids{3});
    m.advance(3);
    CHECK(allowed(m) == ids{end});
}

TEST_CASE("characters cut into tokens, alternatives, and patterns with nothing to say") {
    regex_constraint m = mask("\xC3\xA9|b");
    CHECK(allowed(m) == ids{1, 5});
    m.advance(5);
    CHECK(allowed(m) == ids{6});
    CHECK(allowed(mask("")) == ids{end});
    CHECK(allowed(mask("x")).empty());
    CHECK(allowed(mask("a|b")) == ids{0, 1});
}

TEST_CASE("a copy goes its own way") {
    const regex_constraint before = mask("aab");
    regex_constraint ahead = before;
    ahead.advance(0);
    CHECK(allowed(before) == ids{0});
    CHECK(allowed(ahead) == ids{0, 2});
}

TEST_CASE("random walks over allowed tokens end in matches") {
    for (const char* pattern : {"(ab|1)+\\.", "[ab12]{3,5}", "a*b*1?"}) {
        const token_pattern whole(pattern, texts, {end});
        for (std::uint64_t seed = 0; seed < 200; ++seed) {
            testing::dice die(seed);
            regex_constraint m = mask(pattern);
            std::string text;
            for (int i = 0; i < 60; ++i) {
                const ids choices = allowed(m);
                REQUIRE(!choices.empty());
                const token_id next = choices[static_cast<std::size_t>(die.below(size_of(std::span(choices))))];
                if (next == end) {
                    CHECK(whole.judge(text) == token_pattern::outcome::match);
                    break;
                }
                text += texts[static_cast<std::size_t>(next)];
                CHECK(whole.judge(text) != token_pattern::outcome::never);
                m.advance(next);
            }
        }
    }
}

TEST_CASE("what is no pattern is refused") {
    CHECK_THROWS_AS(mask("(a"), config_error);
    CHECK_THROWS_AS(mask("a)(b"), config_error);
}

}  // namespace dflash::test
