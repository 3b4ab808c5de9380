// Turns what a file says into words for an error message.
//
// Text from files is untrusted: it is cut to a readable length and its control characters are replaced, so that a
// crafted name cannot flood or disguise a message. Numbers are written as short as reads back the same.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// The text in double quotes, made harmless: at most 120 bytes, control characters as '?'.
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
    constexpr std::size_t limit = 120;
    const bool cut = text.size() > limit;
    if (cut) {
        std::size_t size = limit;
        while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) {
            --size;  // not inside a UTF-8 sequence
        }
        text = text.substr(0, size);
    }
    std::string out = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        out += code < 0x20U || code == 0x7FU ? '?' : c;
    }
    return out += cut ? "...\"" : "\"";
}

/// The shortest text that reads back as the same number.
[[nodiscard]] inline std::string number_text(double value) {
    char digits[40];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
    return std::string(digits, end.ptr);
}

/// "[2, 3]".
[[nodiscard]] inline std::string list_text(const std::vector<index>& values) {
    std::string out = "[";
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i == 16) {
            out += ", ...";
            break;
        }
        out += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    }
    return out + "]";
}

}  // namespace io

DFLASH_END_NAMESPACE
