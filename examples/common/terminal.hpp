// Standard output for people and for pipes: colour only on a terminal that wants it, block characters only where the
// locale is UTF-8, and a write that fails is noticed.
#pragma once

#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <langinfo.h>
#include <unistd.h>

#include <dflash/contracts.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Strings and numbers as one string.
template <class... Parts>
[[nodiscard]] std::string joined(const Parts&... parts) {
    return dflash::detail::text(parts...);
}

/// Thrown when whoever reads our output has gone away, which is no error of ours: `program | head` does it.
struct reader_left {};

enum class color_choice : std::uint8_t { automatic, always, never };

enum class style : std::uint8_t {
    plain,
    strong,
    faint,
    drafted,     ///< a token the draft guessed and the target confirmed
    correction,  ///< the target's own token where the draft was wrong
    bonus,       ///< the target's own token after drafts that were all right, or without drafts
    good,
    bad,
};

class terminal {
public:
    explicit terminal(color_choice choice = color_choice::automatic) {
        std::setlocale(LC_CTYPE, "");
        utf8_ = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        is_terminal_ = isatty(STDOUT_FILENO) == 1;
        color_ = choice == color_choice::always || (choice == color_choice::automatic && is_terminal_ && welcome());
    }

    [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }
    [[nodiscard]] bool color() const noexcept { return color_; }
    [[nodiscard]] bool utf8() const noexcept { return utf8_; }

    /// Errors: io_error when the text cannot be written; throws reader_left when nobody reads it.
    void write(std::string_view text) {
        if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
            fail();
        }
    }
    void write(std::string_view text, style how) { write(styled(text, how)); }

    static void flush() {
        if (std::fflush(stdout) != 0) {
            fail();
        }
    }

    /// The text with the codes of a style around it, or as it is without colour.
    [[nodiscard]] std::string styled(std::string_view text, style how) const {
        const std::string_view code = code_of(how);
        if (!color_ || code.empty() || text.empty()) {
            return std::string(text);
        }
        return std::string(code) + std::string(text) + "\x1b[0m";
    }

private:
    // NO_COLOR: see no-color.org; empty counts as absent.
    static bool welcome() {
        const char* refused = std::getenv("NO_COLOR");
        const char* kind = std::getenv("TERM");
        return (refused == nullptr || *refused == '\0') && kind != nullptr && std::strcmp(kind, "dumb") != 0;
    }

    static constexpr std::string_view code_of(style how) {
        switch (how) {
            case style::plain: return "";
            case style::strong: return "\x1b[1m";
            case style::faint: return "\x1b[2m";
            case style::drafted: return "\x1b[32m";
            case style::correction: return "\x1b[1;4;33m";
            case style::bonus: return "\x1b[1;36m";
            case style::good: return "\x1b[1;32m";
            case style::bad: return "\x1b[1;31m";
        }
        return "";
    }

    [[noreturn]] static void fail() {
        const int reason = errno;
        if (reason == EPIPE) {
            throw reader_left();
        }
        raise<io_error>("standard output: cannot write: ", std::strerror(reason));
    }

    bool utf8_ = false;
    bool is_terminal_ = false;
    bool color_ = false;
};

}  // namespace examples
DFLASH_END_NAMESPACE
