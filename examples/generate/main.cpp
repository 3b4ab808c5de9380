// dflash-generate: text from a target and its draft, with what it took.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/engine.hpp"
#include "common/text.hpp"
#include "generate/decode.hpp"
#include "generate/demo.hpp"
#include "generate/dump.hpp"
#include "generate/json_output.hpp"
#include "generate/options.hpp"
#include "generate/table.hpp"
#include "generate/trace.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace {

constexpr const char* program = "dflash-generate";

std::vector<token_id> read_prompt(const generate_options& options, const tokenizer* words) {
    if (options.has_tokens) {
        return parse_ids("--tokens", options.tokens);
    }
    const char* option = options.has_prompt ? "--prompt" : "--prompt-file";
    if (words == nullptr) {
        raise<config_error>(option, ": ", options.engine.target,
                            " has no tokenizer.json, so text cannot become tokens; give ids with --tokens");
    }
    return encode_prompt(program, *words, options.has_prompt ? options.prompt : read_text(options.prompt_file));
}

int generate(generate_options options) {
    complete_folders(options.engine, options.serial);
    const std::optional<tokenizer> found = find_tokenizer(options.engine.target);
    const tokenizer* words = found ? &*found : nullptr;
    const std::vector<token_id> prompt = read_prompt(options, words);
    const std::unique_ptr<engine> models = make_engine(options.engine);
    generation_limits limits = options.limits;
    if (!options.ignore_eos) {
        const std::vector<token_id>& eos = models->shape().eos_tokens;
        limits.stop_tokens.insert(limits.stop_tokens.end(), eos.begin(), eos.end());
    }

    terminal out(options.color);
    round_printer printer(out, words, (std::max)(options.pace, 0), options.serial);
    round_watcher watcher;
    if (!options.json) {
        watcher = [&printer](const round_view& round) {
            printer(round);
            return true;
        };
    }
    first_round tensors;
    std::vector<round_record> rounds;
    std::vector<scored_token> scores;
    const recordings record{.tensors = options.dump.empty() ? nullptr : &tensors,
                            .rounds = options.trace.empty() ? nullptr : &rounds,
                            .scores = options.logprobs < 0 ? nullptr : &scores,
                            .top = (std::max)(options.logprobs, index{0})};
    timed_result run = timed([&] {
        return options.serial ? models->serial(prompt, limits, watcher, record)
                              : models->speculative(prompt, limits, watcher, record);
    });
    if (!options.json) {
        run.seconds = computing_seconds(run.result.stats);
        printer.finish();
        out.write("\n");
        if (!options.serial) {
            print_legend(out);
        }
    }
    if (record.tensors != nullptr) {
        write_first_round(options.dump, tensors);
    }
    if (record.rounds != nullptr) {
        write_trace(options.trace, options.engine, models->block_size(), prompt, rounds, run, words);
    }
    std::optional<comparison> both;
    if (options.compare) {
        both = compare(*models, prompt, limits);
        run = both->speculative;
    }
    const comparison* compared = both ? &*both : nullptr;
    if (options.json) {
        out.write(json_text(prompt, run, words, compared, record.scores));
    } else {
        print_table(out, run, models->block_size(), options.serial, compared);
    }
    return both && !both->identical ? 1 : 0;
}

}  // namespace
}  // namespace examples
DFLASH_END_NAMESPACE

int main(int argc, char** argv) {
    using namespace dflash::examples;
    return run_program(program, [&] {
        const generate_options options = parse_generate_options(argc, argv);
        if (options.demo) {
            terminal out(options.color);
            return demo(out, options).run();
        }
        return generate(options);
    });
}
