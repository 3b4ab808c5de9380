// The regular expressions of a Split pre-tokenizer, run by PCRE2.
//
// tokenizer.json files are written for Oniguruma. The constructs that both engines read alike are passed on, `\s` is
// rewritten to Unicode's White_Space, and everything the two read differently is refused, so that a pattern either
// splits as its author meant or not at all.
#pragma once

#if !defined(PCRE2_CODE_UNIT_WIDTH)
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <dflash/contracts.hpp>

#if PCRE2_MAJOR < 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR < 40)
#error "The tokenizer needs PCRE2 10.40 or newer, for \p{White_Space}."
#endif

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace detail {

inline bool is_ascii_alnum(char c) noexcept {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// Rewrites an Oniguruma pattern for PCRE2, or refuses it. `where` names file and key in the message.
class pattern_translator {
public:
    pattern_translator(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

    [[nodiscard]] std::string run() {
        while (at_ < pattern_.size()) {
            const char c = pattern_[at_];
            if (c == '\\') {
                escape();
            } else if (in_class_) {
                inside_class(c);
            } else {
                outside_class(c);
            }
        }
        return out_;
    }

private:
    [[noreturn]] void refuse(std::string_view construct) const {
        raise<config_error>(where_, ": the pattern uses ", construct, " at offset ", at_, ", which is not supported");
    }

    [[nodiscard]] std::string_view rest() const noexcept { return pattern_.substr(at_); }

    void take(std::size_t count) {
        out_ += pattern_.substr(at_, count);
        at_ += count;
    }

    void escape() {
        const std::string_view next = rest().substr(1);
        if (next.empty()) {
            refuse("a trailing backslash");
        }
        const char c = next.front();
        if (c == 's' || c == 'S') {
            out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
            at_ += 2;
        } else if (c == 'p' || c == 'P') {
            property(next);
        } else if (std::string_view("dDnrt").find(c) != std::string_view::npos || !is_ascii_alnum(c)) {
            take(2);
        } else {
            refuse(std::string("the escape \\") + c);
        }
    }

    void property(std::string_view next) {
        const std::size_t close = next.find('}');
        if (next.substr(1, 1) != "{" || close == std::string_view::npos) {
            refuse("\\p without braces");
        }
        std::string_view name = next.substr(2, close - 2);
        out_ += {'\\', next.front(), '{'};
        if (name.substr(0, 1) == "^") {
            out_ += '^';
            name.remove_prefix(1);
        }
        // One or two letters name a general category; anything longer is meant as a script, never as its extensions.
        out_ += name.size() > 2 ? "sc:" : "";
        for (const char c : name) {
            if (!is_ascii_alnum(c) && c != '_') {
                refuse("the property " + std::string(name));
            }
        }
        out_ += name;
        out_ += '}';
        at_ += close + 2;
    }

    void inside_class(char c) {
        if (c == '[') {
            refuse("a class inside a class");
        }
        if (rest().substr(0, 2) == "&&") {
            refuse("an intersection of classes");
        }
        in_class_ = c != ']';
        take(1);
    }

    void outside_class(char c) {
        if (c == '[') {
            take(rest().substr(1, 1) == "^" ? 2 : 1);
            if (rest().substr(0, 1) == "]") {
                refuse("a class that opens with ]");
            }
            in_class_ = true;
        } else if (c == '^' || c == '$' || c == '.') {
            refuse(std::string("the character ") + c);
        } else if (c == '(') {
            group();
        } else if (c == '{') {
            repetition();
        } else {
            take(1);
        }
    }

    void group() {
        for (const std::string_view allowed : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
            if (rest().substr(0, allowed.size()) == allowed) {
                take(allowed.size());
                return;
            }
        }
        if (rest().substr(1, 1) == "?" || rest().substr(1, 1) == "*") {
            refuse("the group " + std::string(rest().substr(0, 3)));
        }
        take(1);
    }

    void repetition() {
        const std::size_t close = rest().find('}');
        if (close == std::string_view::npos || !(rest()[1] >= '0' && rest()[1] <= '9')) {
            refuse("a brace that is not a repetition");
        }
        if (rest().substr(close + 1, 1) == "+") {
            refuse("a possessive repetition");
        }
        take(close + 1);
    }

    std::string_view pattern_;
    std::string_view where_;
    std::string out_;
    std::size_t at_ = 0;
    bool in_class_ = false;
};

struct pcre2_deleter {
    void operator()(pcre2_code_8* code) const noexcept { pcre2_code_free_8(code); }
    void operator()(pcre2_match_data_8* data) const noexcept { pcre2_match_data_free_8(data); }
};

inline std::string pcre2_message(int code) {
    std::array<PCRE2_UCHAR8, 256> buffer{};
    pcre2_get_error_message_8(code, buffer.data(), buffer.size());
    std::string out;
    for (std::size_t i = 0; i < buffer.size() && buffer[i] != 0; ++i) {
        out += static_cast<char>(buffer[i]);
    }
    return out;
}

}  // namespace detail

/// A compiled pattern that cuts text. Safe to use from several threads at once.
class split_regex {
public:
    /// `where` names the file and the key. Raises config_error for a pattern that is not supported, io_error for one
    /// that is not a pattern.
    split_regex(std::string_view pattern, std::string_view where) : where_(where) {
        const std::string translated = detail::pattern_translator(pattern, where).run();
        int error_code = 0;
        PCRE2_SIZE error_offset = 0;
        code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(),
                                    PCRE2_UTF | PCRE2_UCP, &error_code, &error_offset, nullptr));
        if (code_ == nullptr) {
            raise<io_error>(where, ": ", detail::pcre2_message(error_code), " at offset ", error_offset, " of ",
                            translated);
        }
        std::uint32_t may_be_empty = 0;
        pcre2_pattern_info_8(code_.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
        if (may_be_empty != 0) {
            raise<config_error>(where, ": a pattern that matches the empty string is not supported");
        }
    }

    /// Calls `sink(std::string_view)` for every match and every gap between matches, in order; together they are the
    /// text, which must be valid UTF-8. (The behaviour called Isolated.)
    template <class Sink>
    void split(std::string_view text, Sink&& sink) const {
        const std::unique_ptr<pcre2_match_data_8, detail::pcre2_deleter> data(
            pcre2_match_data_create_from_pattern_8(code_.get(), nullptr));
        std::size_t at = 0;
        while (at < text.size()) {
            // The text was checked once; checking it again for every match would make long texts quadratic.
            const int found = pcre2_match_8(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), at,
                                            PCRE2_NO_UTF_CHECK, data.get(), nullptr);
            if (found == PCRE2_ERROR_NOMATCH) {
                break;
            }
            if (found < 0) {
                raise<backend_error>(where_, ": matching failed at byte ", at, ": ", detail::pcre2_message(found));
            }
            const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer_8(data.get());
            if (bounds[0] > at) {
                sink(text.substr(at, bounds[0] - at));
            }
            sink(text.substr(bounds[0], bounds[1] - bounds[0]));
            at = bounds[1];
        }
        if (at < text.size()) {
            sink(text.substr(at));
        }
    }

private:
    std::string where_;
    std::unique_ptr<pcre2_code_8, detail::pcre2_deleter> code_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
