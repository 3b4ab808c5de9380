// The table after a generation: counts, a bar per acceptance length, seconds, and the comparison with serial decoding.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <dflash/decode/stats.hpp>

#include "common/terminal.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// A generation and the time it took from the call to the return, loading excluded.
struct timed_result {
    generation_result result;
    double seconds = 0;

    [[nodiscard]] double tokens_per_second() const noexcept {
        return seconds > 0 ? static_cast<double>(result.tokens.size()) / seconds : 0.0;
    }
};

/// Both ways to decode one prompt.
struct comparison {
    timed_result speculative;
    timed_result serial;
    bool identical = false;
    int runs = 0;  ///< how many of each were timed

    [[nodiscard]] double ratio() const noexcept {
        return speculative.seconds > 0 ? serial.seconds / speculative.seconds : 0.0;
    }
};

[[nodiscard]] inline std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.*f", digits, value);
    return text;
}

[[nodiscard]] inline std::string padded(std::string_view text, std::size_t width, bool right = true) {
    const std::string gap(text.size() < width ? width - text.size() : 0, ' ');
    return right ? gap + std::string(text) : std::string(text) + gap;
}

/// A bar of `value` out of `most`, at most `width` characters; never empty for a value above 0.
[[nodiscard]] inline std::string bar(index value, index most, index width, bool utf8) {
    const index eighths = most == 0 ? 0 : (std::max)(value > 0 ? index{1} : index{0}, value * width * 8 / most);
    std::string out;
    for (index i = 0; i < eighths / 8; ++i) {
        out += utf8 ? "\xE2\x96\x88" : "#";
    }
    if (const index rest = eighths % 8; rest > 0) {
        out += utf8 ? std::string("\xE2\x96") + static_cast<char>(0x90 - rest) : (out.empty() ? "#" : "");
    }
    return out;
}

/// One bar for each acceptance length that occurred.
inline void print_bars(terminal& out, const decode_stats& stats) {
    const std::vector<index>& lengths = stats.acceptance_lengths;
    if (lengths.empty()) {
        return;
    }
    std::vector<index> counts(static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end())) + 1, 0);
    for (const index length : lengths) {
        ++counts[static_cast<std::size_t>(length)];
    }
    const index most = (std::max)(index{10}, *std::max_element(counts.begin(), counts.end()));
    out.write("\n  rounds by acceptance length\n");
    for (std::size_t length = 1; length < counts.size(); ++length) {
        if (counts[length] > 0) {
            out.write(padded(std::to_string(length), 8) + ' ');
            out.write(bar(counts[length], most, 30, out.utf8()), style::drafted);
            out.write(' ' + std::to_string(counts[length]) + '\n');
        }
    }
}

/// The gist of the table.
inline void print_line(terminal& out, const comparison& both) {
    const decode_stats& stats = both.speculative.result.stats;
    out.write(joined("  ", stats.tokens, " tokens in ", stats.rounds, " rounds, mean acceptance ",
                     fixed(stats.mean_acceptance_length(), 2), ", ", fixed(both.speculative.tokens_per_second(), 0),
                     " tokens per second against ", fixed(both.serial.tokens_per_second(), 0), ", ratio ",
                     fixed(both.ratio(), 2), "\n  outputs identical: "));
    out.write(both.identical ? "yes\n" : "no\n", both.identical ? style::good : style::bad);
}

/// The table of a run, with that of serial decoding beside it after a comparison (`both` may be null).
inline void print_table(terminal& out, const timed_result& run, index block_size, bool serial, const comparison* both) {
    const decode_stats& stats = run.result.stats;
    const auto row = [&out](std::string_view name, const std::string& value, const std::string& more) {
        out.write("  " + padded(name, 18, false) + padded(value, 12) + "   ");
        out.write(more + '\n', style::faint);
    };
    row("tokens", std::to_string(stats.tokens), joined("finish: ", name_of(run.result.reason)));
    if (!serial) {
        row("rounds", std::to_string(stats.rounds),
            "passes of the target after the prompt; serial decoding: " +
                std::to_string((std::max)(index{0}, stats.tokens - 1)));
        row("mean acceptance", fixed(stats.mean_acceptance_length(), 2),
            joined("tokens a round, of ", block_size, " at most"));
        print_bars(out, stats);
    }

    const decode_stats none;
    const decode_stats& other = both != nullptr ? both->serial.result.stats : none;
    const auto cells = [&](std::string_view name, const std::string& here, const std::string& there) {
        out.write("  " + padded(name, 18, false) + padded(here, 12));
        if (both != nullptr) {
            out.write(padded(there, 12));
        }
    };
    out.write("\n");
    cells("seconds", serial ? "serial" : "speculative", "serial");
    out.write("\n");
    cells("  prefill", fixed(stats.prefill_seconds, 4), fixed(other.prefill_seconds, 4));
    out.write("\n");
    if (!serial) {
        cells("  draft", fixed(stats.draft_seconds, 4), "-");
        out.write("\n");
    }
    cells("  verify", fixed(stats.verify_seconds, 4), fixed(other.verify_seconds, 4));
    out.write("\n");
    cells("  all", fixed(run.seconds, 4), fixed(both != nullptr ? both->serial.seconds : 0, 4));
    out.write("\n");
    cells("tokens per second", fixed(run.tokens_per_second(), 0),
          fixed(both != nullptr ? both->serial.tokens_per_second() : 0, 0));
    if (both != nullptr) {
        out.write("   ratio " +
                  out.styled(fixed(both->ratio(), 2), both->ratio() >= 1 ? style::good : style::correction) +
                  out.styled(joined("  median of ", both->runs, both->runs == 1 ? " run" : " runs"), style::faint));
        out.write("\n  outputs identical: " +
                  (both->identical ? out.styled("yes", style::good) : out.styled("no", style::bad)));
    }
    out.write("\n");
}

}  // namespace examples
DFLASH_END_NAMESPACE
