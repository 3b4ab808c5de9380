#include "support/utf8_stream.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace {

using dflash::examples::front_of_utf8;
using dflash::examples::utf8_kind;
using dflash::examples::utf8_stream;
using dflash::examples::valid_utf8_prefix;

std::string encoded(std::uint32_t code) {
    const auto byte = [](std::uint32_t b) { return static_cast<char>(static_cast<unsigned char>(b)); };
    if (code < 0x80) {
        return {byte(code)};
    }
    if (code < 0x800) {
        return {byte(0xC0 | (code >> 6)), byte(0x80 | (code & 0x3F))};
    }
    if (code < 0x10000) {
        return {byte(0xE0 | (code >> 12)), byte(0x80 | ((code >> 6) & 0x3F)), byte(0x80 | (code & 0x3F))};
    }
    return {byte(0xF0 | (code >> 18)), byte(0x80 | ((code >> 12) & 0x3F)), byte(0x80 | ((code >> 6) & 0x3F)),
            byte(0x80 | (code & 0x3F))};
}

std::string streamed(std::string_view bytes, std::size_t piece) {
    utf8_stream stream;
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        out += stream.push(bytes.substr(at, piece));
    }
    return out + stream.finish();
}

const std::string bad = "\xEF\xBF\xBD";

std::string repeated(const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) {
        out += text;
    }
    return out;
}

}  // namespace

TEST_CASE("every code point is a character, every surrogate is not") {
    int wrong = 0;
    for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
        const std::string text = encoded(code);
        const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        const auto front = front_of_utf8(text);
        wrong += (front.kind == utf8_kind::character) == surrogate;
        wrong += !surrogate && front.length != text.size();
        for (std::size_t cut = 1; cut < text.size() && !surrogate; ++cut) {
            const auto part = front_of_utf8(std::string_view(text).substr(0, cut));
            wrong += part.kind != utf8_kind::incomplete || part.length != cut;
        }
    }
    CHECK(wrong == 0);
    CHECK(front_of_utf8(encoded(0x110000)).kind == utf8_kind::invalid);
}

TEST_CASE("a character appears when its last byte does, and not before") {
    utf8_stream stream;
    CHECK(stream.push("a\xF0\x9F") == "a");
    CHECK(stream.held() == 2);
    CHECK(stream.push("\x98").empty());
    CHECK(stream.held() == 3);
    CHECK(stream.push("\x80z") == "\xF0\x9F\x98\x80z");
    CHECK(stream.held() == 0);
    CHECK(stream.finish().empty());
}

TEST_CASE("what is never completed becomes one U+FFFD, and the stream starts afresh") {
    utf8_stream stream;
    CHECK(stream.push("\xF0\x9F\x98").empty());
    CHECK(stream.finish() == bad);
    CHECK(stream.finish().empty());
    CHECK(stream.push("\x80") == bad);
    CHECK(stream.push("ok") == "ok");
}

TEST_CASE("invalid bytes become U+FFFD as the Unicode standard shows it") {
    CHECK(streamed("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 1) == repeated(bad, 8) + "A");
    CHECK(streamed("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 1) == repeated(bad, 8) + "A");
    CHECK(streamed("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 1) == repeated(bad, 5) + "A" + repeated(bad, 2) + "B");
    CHECK(streamed("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 1) == repeated(bad, 4) + "A");
}

TEST_CASE("the output is valid UTF-8 and does not depend on how the bytes are cut") {
    std::mt19937 random(7);
    const std::string_view likely = "\x80\xBF\x9F\xA0\xC2\xE0\xED\xF0\xF4\xFFz";
    for (int round = 0; round < 2000; ++round) {
        std::string bytes;
        for (std::size_t i = random() % 24; i > 0; --i) {
            bytes += likely[random() % likely.size()];
        }
        const std::string whole = streamed(bytes, bytes.size() + 1);
        REQUIRE(valid_utf8_prefix(whole) == whole.size());
        for (std::size_t piece = 1; piece < 5; ++piece) {
            REQUIRE(streamed(bytes, piece) == whole);
        }
    }
}

TEST_CASE("valid_utf8_prefix stops at the first broken character") {
    CHECK(valid_utf8_prefix("") == 0);
    CHECK(valid_utf8_prefix("ab\xC3\xA9") == 4);
    CHECK(valid_utf8_prefix("ab\xC3") == 2);
    CHECK(valid_utf8_prefix("\xC3\xA9\x80") == 2);
}
