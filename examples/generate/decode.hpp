// Runs of an engine: shown on the screen as it goes, or timed against serial decoding.
#pragma once

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/engine.hpp"
#include "common/terminal.hpp"
#include "common/text.hpp"
#include "generate/table.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Writes the tokens of a round: in colour, drafts that stood and the target's own token after them.
class round_printer {
public:
    /// `pace`: milliseconds to wait after each round. `words` may be null.
    round_printer(terminal& out, const tokenizer* words, int pace, bool serial)
        : out_(out), text_(words), pace_(pace), serial_(serial) {}

    void operator()(const round_view& round) {
        for (index i = 0; i < size_of(round.tokens); ++i) {
            const std::string text = text_.push(round.tokens[static_cast<std::size_t>(i)]);
            const std::size_t visible = (std::min)(text.find_first_not_of(" \n\t"), text.size());
            out_.write(text.substr(0, visible));
            out_.write(text.substr(visible), style_of(i, round));
        }
        terminal::flush();
        if (pace_ > 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(pace_));
        }
    }

    void finish() { out_.write(text_.finish() + '\n'); }

private:
    [[nodiscard]] style style_of(index i, const round_view& round) const noexcept {
        if (serial_) {
            return style::plain;
        }
        return i < round.accepted ? style::drafted : (i < round.drafted ? style::correction : style::bonus);
    }

    terminal& out_;
    token_text text_;
    int pace_;
    bool serial_;
};

/// What the colours of round_printer mean; nothing without colour.
inline void print_legend(terminal& out) {
    if (out.color()) {
        out.write("  Colours: " + out.styled("drafted and accepted", style::drafted) + ", " +
                  out.styled("corrected by the target", style::correction) + ", " +
                  out.styled("added by the target", style::bonus) + ".\n");
    }
}

/// One generation and its time.
template <class Run>
timed_result timed(Run run) {
    const auto start = std::chrono::steady_clock::now();
    timed_result out;
    out.result = run();
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
}

/// What a run spent computing; for runs that were shown, whose clock time holds the showing.
[[nodiscard]] inline double computing_seconds(const decode_stats& stats) noexcept {
    return stats.prefill_seconds + stats.draft_seconds + stats.verify_seconds + stats.sample_seconds;
}

/// Decodes both ways. Each is run once to warm up, then they take turns, for up to nine timed runs of each and about
/// three seconds; the run of median time speaks for its side. Where one run of each takes longer than that, it is all.
[[nodiscard]] inline comparison compare(engine& models, std::span<const token_id> prompt,
                                        const generation_limits& limits) {
    comparison both;
    const auto speculative = [&] { return models.speculative(prompt, limits, nullptr, {}); };
    const auto serial = [&] { return models.serial(prompt, limits, nullptr, {}); };
    const timed_result first = timed(speculative);
    const timed_result second = timed(serial);
    both.identical = first.result.tokens == second.result.tokens && first.result.reason == second.result.reason;

    std::vector<timed_result> fast;
    std::vector<timed_result> plain;
    both.runs = static_cast<int>((std::min)(3.0 / (first.seconds + second.seconds + 1e-9), 9.0));
    if (both.runs == 0) {
        both.runs = 1;
        both.speculative = first;
        both.serial = second;
        return both;
    }
    for (int run = 0; run < both.runs; ++run) {
        for (int turn = 0; turn < 2; ++turn) {
            if (turn == run % 2) {
                fast.push_back(timed(speculative));
                both.identical = both.identical && fast.back().result.tokens == second.result.tokens;
            } else {
                plain.push_back(timed(serial));
                both.identical = both.identical && plain.back().result.tokens == second.result.tokens;
            }
        }
    }
    const auto median = [](std::vector<timed_result>& runs) {
        const auto middle = runs.begin() + static_cast<index>(runs.size() / 2);
        std::nth_element(runs.begin(), middle, runs.end(),
                         [](const timed_result& a, const timed_result& b) { return a.seconds < b.seconds; });
        return *middle;
    };
    both.speculative = median(fast);
    both.serial = median(plain);
    return both;
}

}  // namespace examples
DFLASH_END_NAMESPACE
