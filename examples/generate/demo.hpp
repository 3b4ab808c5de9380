// The demo: two texts that are easier to draft, with their answers checked, and one text that is hard to draft.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/models.hpp"
#include "generate/decode.hpp"
#include "generate/options.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// A problem the models have not been trained on, and what is right.
struct demo_problem {
    std::string_view question;
    std::string_view right;
    bool whole_text = false;  ///< right is the whole solution, not only what it states after "Answer: "
};

inline constexpr demo_problem demo_problems[] = {
    {"Jack had 248 cakes. Then Jack loses 198 and then gets 3 times as many. How many cakes does Jack have now?\n",
     "150 cakes"},
    {"Write JSON on one line: the meeting is on Tuesday at 07:00 in Vienna, room 7, with Ben, Vera, Yusuf and Karen.\n",
     R"({"event": "meeting", "day": "Tuesday", "time": "07:00", "place": {"city": "Vienna", "room": 7}, )"
     R"("guests": [{"name": "Ben"}, {"name": "Vera"}, {"name": "Yusuf"}, {"name": "Karen"}], "count": 4})",
     true},
};
inline constexpr std::string_view demo_prose = "7 And Abraham ran unto the herd, and fetcht a calf tender and";
inline constexpr index demo_prose_tokens = 96;

/// What stands after the last "Answer: ", to the end of the line.
[[nodiscard]] inline std::string stated_answer(const std::string& text) {
    constexpr std::string_view label = "Answer: ";
    const std::size_t at = text.rfind(label);
    if (at == std::string::npos) {
        return {};
    }
    const std::size_t first = at + label.size();
    return text.substr(first, (std::min)(text.find('\n', first), text.size()) - first);
}

class demo {
public:
    demo(terminal& out, const generate_options& options)
        : out_(out), options_(options), pace_(options.pace >= 0 ? options.pace : (out.is_terminal() ? 60 : 0)) {}

    /// 1 if outputs or answers are not what they must be.
    int run() {
        heading("problems-and-records: a model of 28 million parameters that solves problems step by step");
        open("problems-and-records");
        choose_threads(demo_problems[0].question);
        legend();
        bool right = solve(demo_problems[0], true);
        right = solve(demo_problems[1], false) && right;
        heading("prose-and-code: text that is hard to draft, for comparison");
        open("prose-and-code");
        choose_threads(demo_prose);
        out_.write("\n");
        right = continue_prose() && right;
        out_.write("\n");
        return right ? 0 : 1;
    }

private:
    void heading(std::string_view text) {
        out_.write("\n");
        out_.write(text, style::strong);
        out_.write("\n");
    }

    void open(const std::string& name) {
        const std::filesystem::path folder = shipped_pair(name);
        engine_options options = options_.engine;
        options.target = (folder / "target").string();
        options.draft = (folder / "draft").string();
        models_ = make_engine(options);
        words_ = std::make_unique<tokenizer>(tokenizer::load((folder / "target" / "tokenizer.json").string()));
    }

    /// Models this small may be faster on one thread than on all, for both ways of decoding alike: tries it, and says
    /// what it chose.
    void choose_threads(std::string_view question) {
        std::string chosen = std::to_string(options_.engine.threads);
        if (options_.engine.threads == 0) {
            const std::vector<token_id> prompt = words_->encode(question);
            const generation_limits ends = limits(32);
            double alone = trial(1, prompt, ends, 10.0);
            alone = (std::min)(alone, trial(1, prompt, ends, alone));
            double together = trial(0, prompt, ends, alone);
            together = (std::min)(together, trial(0, prompt, ends, alone));
            models_->set_threads(alone <= together ? 1 : 0);
            chosen = alone <= together ? "one" : "all";
        }
        out_.write(joined("  Threads: ", chosen, ". "), style::faint);
    }

    /// Seconds to decode both ways, or about as many as `enough`.
    double trial(int threads, const std::vector<token_id>& prompt, const generation_limits& ends, double enough) {
        models_->set_threads(threads);
        const auto start = std::chrono::steady_clock::now();
        const auto passed = [start] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        };
        const round_watcher impatient = [&](const round_view&) { return passed() < enough; };
        models_->speculative(prompt, ends, impatient, {});
        models_->serial(prompt, ends, impatient, {});
        return passed();
    }

    void legend() {
        if (pace_ > 0) {
            out_.write(joined("Shown in slow motion, ", pace_, " ms a round; the seconds in the tables are real."),
                       style::faint);
        }
        out_.write("\n");
        print_legend(out_);
    }

    [[nodiscard]] generation_limits limits(index most) const {
        generation_limits ends = options_.limits;
        ends.max_new_tokens = (std::min)(ends.max_new_tokens, most);
        const std::vector<token_id>& eos = models_->shape().eos_tokens;
        ends.stop_tokens.insert(ends.stop_tokens.end(), eos.begin(), eos.end());
        return ends;
    }

    /// The solution, its answer checked, and the table (`whole`) or the gist of it in a line.
    bool solve(const demo_problem& problem, bool whole) {
        out_.write("\n");
        out_.write(problem.question, style::strong);
        const std::vector<token_id> prompt = words_->encode(problem.question);
        const generation_limits ends = limits(options_.limits.max_new_tokens);
        terminal::flush();
        round_printer printer(out_, words_.get(), pace_, false);
        const generation_result shown = models_->speculative(prompt, ends, printed_by(printer), {});
        printer.finish();
        terminal::flush();
        const comparison both = compare(*models_, prompt, ends);

        const std::string text = token_text::all(*words_, shown.tokens);
        const std::string answer = problem.whole_text ? text : stated_answer(text);
        const bool right = answer == problem.right;
        const std::string shown_answer = problem.whole_text ? "the text above" : (answer.empty() ? "none" : answer);
        out_.write("\n  answer: " + shown_answer + ", " +
                   (right ? out_.styled("correct", style::good)
                          : out_.styled(joined("wrong: it is ", problem.right), style::bad)) +
                   '\n');
        if (whole) {
            print_table(out_, both.speculative, models_->block_size(), false, &both);
            show_serial(prompt, ends, both);
        } else {
            print_line(out_, both);
        }
        return right && both.identical && shown.tokens == both.serial.result.tokens;
    }

    bool continue_prose() {
        out_.write("\n");
        out_.write(demo_prose, style::strong);
        const std::vector<token_id> prompt = words_->encode(demo_prose);
        const generation_limits ends = limits(demo_prose_tokens);
        terminal::flush();
        round_printer printer(out_, words_.get(), pace_, false);
        const generation_result shown = models_->speculative(prompt, ends, printed_by(printer), {});
        printer.finish();
        terminal::flush();
        const comparison both = compare(*models_, prompt, ends);
        out_.write("\n");
        print_table(out_, both.speculative, models_->block_size(), false, &both);
        if (both.ratio() < 1) {
            out_.write("  Where the draft is wrong this often its work is not paid back. The output stays the same.\n",
                       style::faint);
        }
        return both.identical && shown.tokens == both.serial.result.tokens;
    }

    /// The same text again, one token at a time and slowed down as much as the rounds were.
    void show_serial(const std::vector<token_id>& prompt, const generation_limits& ends, const comparison& both) {
        if (pace_ <= 0 || both.ratio() <= 0) {
            return;
        }
        const double rounds = static_cast<double>(both.speculative.result.stats.rounds + 1);
        const double steps = static_cast<double>(both.serial.result.tokens.size());
        const int pace = static_cast<int>(pace_ * rounds * both.ratio() / (std::max)(steps, 1.0));
        out_.write("\n  The same by serial decoding, in the same slow motion:\n", style::faint);
        round_printer printer(out_, words_.get(), pace, true);
        models_->serial(prompt, ends, printed_by(printer), {});
        printer.finish();
    }

    static round_watcher printed_by(round_printer& printer) {
        return [&printer](const round_view& round) {
            printer(round);
            return true;
        };
    }

    terminal& out_;
    const generate_options& options_;
    int pace_;
    std::unique_ptr<engine> models_;
    std::unique_ptr<tokenizer> words_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
