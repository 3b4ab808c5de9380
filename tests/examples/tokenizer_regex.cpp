#include "support/tokenizer_regex.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using dflash::examples::split_regex;

std::vector<std::string> pieces(std::string_view pattern, std::string_view text) {
    std::vector<std::string> out;
    split_regex(pattern, "file.json: Regex").split(text, [&](std::string_view piece) { out.emplace_back(piece); });
    return out;
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("matches and gaps come in order and make up the text") {
    CHECK(pieces("b+", "abbbcbd") == list{"a", "bbb", "c", "b", "d"});
    CHECK(pieces("x", "abc") == list{"abc"});
    CHECK(pieces("x", "").empty());
    CHECK(pieces(R"(\p{L}+|\p{N})", "\xC3\xA9t\xC3\xA9 12") == list{"\xC3\xA9t\xC3\xA9", " ", "1", "2"});
}

TEST_CASE("constructs that are supported") {
    CHECK(pieces("(?i:'s)", "a'S") == list{"a", "'S"});
    CHECK(pieces(R"(a(?!b))", "abaca") == list{"ab", "a", "c", "a"});
    CHECK(pieces(R"((?<=b)a)", "abaa") == list{"ab", "a", "a"});
    CHECK(pieces(R"(\p{^L}+)", "ab12") == list{"ab", "12"});
    CHECK(pieces(R"(\p{Han}+)", "a\xE4\xBD\xA0z") == list{"a", "\xE4\xBD\xA0", "z"});
    CHECK(pieces(R"(\d{1,3})", "1234567") == list{"123", "456", "7"});
    CHECK(pieces(R"([\]\-\[]+)", "a]-[b") == list{"a", "]-[", "b"});
}

TEST_CASE("white space is Unicode's, no more and no less") {
    for (const char* space :
         {"\t", "\n", "\v", "\f", "\r", " ", "\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x8A",
          "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"}) {
        CHECK(pieces(R"(\s)", std::string("a") + space) == list{"a", space});
        CHECK(pieces(R"([^\S])", std::string("a") + space) == list{"a", space});
    }
    // U+180E, U+200B, U+FEFF: other engines count some of these
    for (const char* other : {"\xE1\xA0\x8E", "\xE2\x80\x8B", "\xEF\xBB\xBF"}) {
        CHECK(pieces(R"(\s)", std::string("a") + other) == list{std::string("a") + other});
    }
}

TEST_CASE("constructs that another engine reads differently are refused") {
    for (const char* pattern :
         {R"(\w+)",    R"(\b)", R"(\h)",     R"(\R)", R"(\X)",       R"(\v)",  R"((a)\1)", R"(\x41)", R"(\pL)",
          R"(\p{L&})", "^a",    "a$",        ".",     "[[:alpha:]]", "[a[b]]", "[a&&b]",   "[]a]",    "(?i)a",
          "(?<n>a)",   "(?#a)", "(*ACCEPT)", "a{,3}", "a{1,3}+",     "a{x",    "a\\"}) {
        CAPTURE(pattern);
        CHECK_THROWS_WITH_AS(split_regex(pattern, "file.json: Regex"), doctest::Contains("file.json: Regex"),
                             dflash::config_error);
    }
}

TEST_CASE("patterns that match nothing or are none") {
    for (const char* pattern : {"a*", "a|", "(?=a)", ""}) {
        CAPTURE(pattern);
        CHECK_THROWS_WITH_AS(split_regex(pattern, "file.json"), doctest::Contains("empty string"),
                             dflash::config_error);
    }
    for (const char* pattern : {"(a", "a)", "[a", "*", R"(\p{Klingon})"}) {
        CAPTURE(pattern);
        CHECK_THROWS_WITH_AS(split_regex(pattern, "file.json"), doctest::Contains("file.json"), dflash::io_error);
    }
}
