// What every program does alike: parse its arguments, turn errors into one line and an exit status.
//
// Status 0: done; 1: the program compares things and found a difference; 2: usage, configuration, files;
// 3: there is no device of the kind that was asked for.
#pragma once

#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <dflash/vocabulary.hpp>

#include "common/no_device.hpp"
#include "common/terminal.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Thrown when --help has been answered.
struct answered {};

/// One line on standard error, whatever the message holds.
inline void complain(std::string_view program, std::string_view kind, std::string_view message) {
    std::string line = joined(program, ": ", kind, ": ", message);
    for (char& c : line) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            c = ' ';
        }
    }
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
}

/// Runs `body`, which returns the exit status.
template <class Body>
int run_program(std::string_view name, Body body) {
    std::signal(SIGPIPE, SIG_IGN);
    try {
        const int status = body();
        terminal::flush();
        return status;
    } catch (const answered&) {
        return 0;
    } catch (const reader_left&) {
        return 0;
    } catch (const no_device& failure) {
        complain(name, "error", failure.what());
        return 3;
    } catch (const std::bad_alloc&) {
        complain(name, "error", "there is not enough memory");
    } catch (const std::exception& failure) {
        complain(name, "error", failure.what());
    }
    return 2;
}

/// Parses the arguments. Errors: config_error; throws answered after --help.
inline void parse_arguments(CLI::App& app, int argc, const char* const* argv) {
    app.get_formatter()->column_width(36);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        terminal out;
        out.write(app.help());
        terminal::flush();
        throw answered();
    } catch (const CLI::ParseError& failure) {
        raise<config_error>(failure.what());
    }
}

/// A whole number within bounds, or nothing. Decimal digits and a minus sign only.
[[nodiscard]] inline std::optional<index> parse_whole(std::string_view text, index least, index most) {
    index value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || value < least || value > most) {
        return std::nullopt;
    }
    return value;
}

/// For CLI11's transform(): a whole number within bounds, written the one way CLI11 does not read as octal.
[[nodiscard]] inline CLI::Validator whole_number(index least, index most) {
    return CLI::Validator(
        [least, most](std::string& text) -> std::string {
            const std::optional<index> value = parse_whole(text, least, most);
            if (!value) {
                return joined("got \"", text, "\", needs a whole number ", least, " .. ", most);
            }
            text = std::to_string(*value);
            return {};
        },
        "");
}

}  // namespace examples
DFLASH_END_NAMESPACE
