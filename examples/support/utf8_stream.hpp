// UTF-8: where the next character of a byte string ends, and a stream that only ever lets whole characters through.
//
// A token may end in the middle of a character, so bytes are printed through utf8_stream. Bytes that can never become
// a character turn into U+FFFD, one for each longest invalid beginning, as Unicode recommends. Nothing is normalised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// What stands at the front of a byte string.
enum class utf8_kind : std::uint8_t {
    character,   ///< one whole character
    invalid,     ///< bytes that no continuation can make valid
    incomplete,  ///< the valid beginning of a character, cut off by the end of the string
};

/// The kind and how many bytes it covers (1 to 4).
struct utf8_front {
    utf8_kind kind = utf8_kind::invalid;
    std::size_t length = 1;
};

/// Examines the front of `bytes`, which must not be empty. Source: the table of well-formed sequences in the Unicode
/// standard, section 3.9: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] inline utf8_front front_of_utf8(std::string_view bytes) noexcept {
    const auto byte = [bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) {
        return {utf8_kind::character, 1};
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return {utf8_kind::invalid, 1};
    }
    const std::size_t length = lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4);
    // Only the second byte has a range that depends on the first.
    unsigned low = 0x80;
    unsigned high = 0xBF;
    switch (lead) {
        case 0xE0: low = 0xA0; break;
        case 0xED: high = 0x9F; break;
        case 0xF0: low = 0x90; break;
        case 0xF4: high = 0x8F; break;
        default: break;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if (i == bytes.size()) {
            return {utf8_kind::incomplete, i};
        }
        if (byte(i) < low || byte(i) > high) {
            return {utf8_kind::invalid, i};
        }
        low = 0x80;
        high = 0xBF;
    }
    return {utf8_kind::character, length};
}

/// The offset of the first byte that does not belong to a whole character, or the size of `bytes` if all is well.
[[nodiscard]] inline std::size_t valid_utf8_prefix(std::string_view bytes) noexcept {
    std::size_t at = 0;
    while (at < bytes.size()) {
        const utf8_front next = front_of_utf8(bytes.substr(at));
        if (next.kind != utf8_kind::character) {
            break;
        }
        at += next.length;
    }
    return at;
}

/// Turns a stream of bytes, cut anywhere, into a stream of valid UTF-8. The concatenated output does not depend on
/// where the input was cut.
class utf8_stream {
public:
    /// Takes more bytes; returns the text that is now certain. At most three bytes are held back.
    [[nodiscard]] std::string push(std::string_view bytes) {
        held_ += bytes;
        std::string out;
        std::size_t at = 0;
        while (at < held_.size()) {
            const utf8_front next = front_of_utf8(std::string_view(held_).substr(at));
            if (next.kind == utf8_kind::incomplete) {
                break;
            }
            if (next.kind == utf8_kind::character) {
                out.append(held_, at, next.length);
            } else {
                out += replacement;
            }
            at += next.length;
        }
        held_.erase(0, at);
        return out;
    }

    /// Ends the text: a character that was never completed becomes U+FFFD. The stream can be used again.
    [[nodiscard]] std::string finish() {
        const bool cut_off = !held_.empty();
        held_.clear();
        return cut_off ? std::string(replacement) : std::string();
    }

    /// How many bytes wait for the rest of their character.
    [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }

private:
    static constexpr std::string_view replacement = "\xEF\xBF\xBD";
    std::string held_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
