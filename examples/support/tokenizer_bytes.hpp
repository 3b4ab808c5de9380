// The byte alphabet of GPT-2: byte-level vocabularies write each byte as one printable character.
//
// Printable Latin-1 bytes stand for themselves, the 68 others are U+0100, U+0101, ... in order. The tokenizer leaves
// this alphabet as soon as a file is read and works on plain bytes from then on.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace detail {

inline constexpr int byte_alphabet_end = 0x144;

/// For each code point of the alphabet its byte, -1 for code points that are not in it.
[[nodiscard]] constexpr std::array<int, byte_alphabet_end> make_byte_of_code_point() {
    std::array<int, byte_alphabet_end> table{};
    table.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
        table[static_cast<std::size_t>(printable ? byte : next++)] = byte;
    }
    return table;
}

inline constexpr std::array<int, byte_alphabet_end> byte_of_code_point = make_byte_of_code_point();

}  // namespace detail

/// The bytes a vocabulary entry stands for, or nothing if it is not written in the alphabet. `entry` is valid UTF-8.
[[nodiscard]] inline std::optional<std::string> bytes_of_entry(std::string_view entry) {
    std::string out;
    for (std::size_t i = 0; i < entry.size(); ++i) {
        unsigned code = static_cast<unsigned char>(entry[i]);
        if (code >= 0xE0) {
            return std::nullopt;  // three or four bytes: beyond the alphabet
        }
        if (code >= 0x80 && ++i < entry.size()) {
            code = ((code & 0x1FU) << 6U) | (static_cast<unsigned char>(entry[i]) & 0x3FU);
        }
        if (code >= detail::byte_of_code_point.size() || detail::byte_of_code_point[code] < 0) {
            return std::nullopt;
        }
        out += static_cast<char>(static_cast<unsigned char>(detail::byte_of_code_point[code]));
    }
    return out;
}

}  // namespace examples
DFLASH_END_NAMESPACE
