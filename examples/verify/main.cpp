// dflash-verify: is decoding in blocks the same as decoding token by token? Over prompts, block sizes, thread counts.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine.hpp"
#include "common/models.hpp"
#include "common/program.hpp"
#include "common/sampling_flags.hpp"
#include "common/terminal.hpp"
#include "common/text.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace {

constexpr const char* program = "dflash-verify";

struct verify_options {
    engine_options engine;
    std::string prompts;
    bool ids = false;
    std::vector<index> block_sizes = {1, 2, 4, 8, 16};
    std::vector<int> threads = {1, 2};
    index max_new_tokens = 128;
    color_choice color = color_choice::automatic;
};

using prompt_list = std::vector<std::vector<token_id>>;

verify_options parse(int argc, const char* const* argv) {
    verify_options options;
    std::string backend = "exact";
    std::string activation = "f32";
    std::string color = "auto";
    CLI::App app(
        "Decodes prompts token by token and in blocks, and compares the tokens and the bits of every row of logits.\n"
        "Status 0: all equal; 1: something differs; 2: it could not be tried.",
        program);
    app.add_option("--target", options.engine.target, "Folder of the target model")
        ->type_name("DIR")
        ->default_str("examples/models/worked-problems/target");
    app.add_option("--draft", options.engine.draft, "Folder of its draft")
        ->type_name("DIR")
        ->default_str("examples/models/worked-problems/draft");
    CLI::Option* prompts =
        app.add_option("--prompts", options.prompts, "A file with one prompt a line, - for standard input")
            ->type_name("FILE")
            ->default_str("some that fit the model");
    app.add_flag("--ids", options.ids, "The prompts are token ids: 1,2,3")->needs(prompts);
    app.add_option("--block-sizes", options.block_sizes, "Block sizes to try")
        ->transform(whole_number(1, 4096))
        ->delimiter(',')
        ->type_name("B,...")
        ->default_str("1,2,4,8,16");
    app.add_option("--threads", options.threads, "Thread counts to try")
        ->transform(whole_number(1, 4096))
        ->delimiter(',')
        ->type_name("N,...")
        ->default_str("1,2");
    app.add_option("--max-new-tokens", options.max_new_tokens, "Tokens to generate for each prompt")
        ->transform(whole_number(0, index{1} << 40))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--backend", backend, "exact, or reference: Eigen, which may differ")
        ->check(CLI::IsMember({"exact", "reference"}))
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--activation", activation, "f32, or bf16: inputs of linears with BF16 weights are rounded to bf16")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->type_name("TYPE")
        ->capture_default_str();
    app.add_option("--color", color, "Colour: auto, always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN")
        ->capture_default_str();
    const sampling_flags sampling(app);
    parse_arguments(app, argc, argv);
    options.engine.sampling = sampling.choice();
    options.engine.backend = backend == "exact" ? backend_kind::exact : backend_kind::reference;
    options.engine.activation = activation == "bf16" ? activation_type::bf16 : activation_type::f32;
    options.color = color == "auto"     ? color_choice::automatic
                    : color == "always" ? color_choice::always
                                        : color_choice::never;
    if (options.engine.target.empty() != options.engine.draft.empty()) {
        raise<config_error>("give --target and --draft together, or neither for the models of the project");
    }
    return options;
}

prompt_list read_prompts(const verify_options& options, const std::optional<tokenizer>& words) {
    const std::string text = read_text(options.prompts);
    prompt_list prompts;
    for (std::size_t first = 0; first < text.size();) {
        const std::size_t end = (std::min)(text.find('\n', first), text.size());
        const std::string line = text.substr(first, end - first);
        if (!line.empty() && options.ids) {
            prompts.push_back(parse_ids(options.prompts, line));
        } else if (!line.empty() && words) {
            prompts.push_back(encode_prompt(program, *words, line));
        } else if (!line.empty()) {
            raise<config_error>("--prompts: ", options.engine.target,
                                " has no tokenizer.json, so text cannot become tokens; give ids, and --ids");
        }
        first = end + 1;
    }
    if (prompts.empty()) {
        raise<config_error>("--prompts: ", options.prompts, " holds no prompt");
    }
    return prompts;
}

prompt_list shipped_prompts(const tokenizer& words) {
    prompt_list prompts;
    for (const char* text :
         {"Add 53 and 666.\n", "Solve 7 * x + 34 = 118.\n", "Write 4 hours and 15 minutes in minutes.\n",
          "Emma has 86 marbles and gives 62 marbles to Frank. How many marbles does Emma have left?\n",
          "What is 602 - 43?\n"}) {
        prompts.push_back(words.encode(text));
    }
    return prompts;
}

/// Prompts for any model: arbitrary tokens, the same at every call.
prompt_list arbitrary_prompts(index vocab_size) {
    prompt_list prompts;
    std::uint64_t state = 1;
    for (const index length : {1, 7, 24, 60}) {
        std::vector<token_id> prompt;
        for (index i = 0; i < length; ++i) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            prompt.push_back(static_cast<token_id>((state >> 33U) % static_cast<std::uint64_t>(vocab_size)));
        }
        prompts.push_back(prompt);
    }
    return prompts;
}

std::string column(std::string_view text, std::size_t width) {
    return std::string(text.size() < width ? width - text.size() : 0, ' ') + std::string(text);
}

std::string number(double value, const char* format) {
    char text[64];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

std::string describe(std::string_view side, token_id token, const testing::top_two& row) {
    if (token < 0) {
        return joined("    ", side, " had ended\n");
    }
    return joined("    ", side, " token ", token, "; best ", row.first, " (", number(row.first_logit, "%.9g"),
                  "), then ", row.second, " (", number(row.second_logit, "%.9g"), "), ", row.gap_in_ulps(),
                  " ulps apart\n");
}

/// One row of the table; returns whether everything was equal.
bool print_row(terminal& out, index block, int threads, const testing::lossless_report& report) {
    out.write(column(std::to_string(block), 7) + column(std::to_string(threads), 10) +
              column(std::to_string(report.tokens), 9) + column(number(report.mean_acceptance_length(), "%.2f"), 13) +
              column(std::to_string(report.differing_rows), 17) + "   ");
    out.write(report.bit_equal() ? "EQUAL" : (report.equal ? "BITS DIFFER" : "DIFFERENT"),
              report.bit_equal() ? style::good : style::bad);
    out.write("\n");
    if (report.first) {
        const testing::lossless_difference& first = *report.first;
        out.write(joined("    first difference: prompt ", first.prompt + 1, ", position ", first.position, "\n"));
        out.write(describe("serial:     ", first.serial, first.serial_row));
        out.write(describe("speculative:", first.speculative, first.speculative_row));
    }
    terminal::flush();
    return report.bit_equal();
}

int verify(verify_options options) {
    const bool shipped = options.engine.target.empty();
    if (shipped) {
        options.engine.target = (shipped_pair("worked-problems") / "target").string();
        options.engine.draft = (shipped_pair("worked-problems") / "draft").string();
    }
    std::optional<tokenizer> words;
    if (!options.ids) {
        words = find_tokenizer(options.engine.target);
    }
    prompt_list prompts;
    if (!options.prompts.empty()) {
        prompts = read_prompts(options, words);
    } else if (shipped) {
        prompts = shipped_prompts(*words);
    }
    const std::unique_ptr<engine> models = make_engine(options.engine);
    if (prompts.empty()) {
        prompts = arbitrary_prompts(models->shape().vocab_size);
    }
    generation_limits limits;
    limits.max_new_tokens = options.max_new_tokens;
    limits.stop_tokens = models->shape().eos_tokens;

    terminal out(options.color);
    out.write(joined(prompts.size(), prompts.size() == 1 ? " prompt" : " prompts", ", at most ", limits.max_new_tokens,
                     " new tokens each, backend ",
                     options.engine.backend == backend_kind::exact ? "exact" : "reference",
                     options.engine.activation == activation_type::bf16 ? ", activations bf16" : "", "\n\n"));
    out.write("  block   threads   tokens   acceptance   differing rows   tokens and bits\n", style::strong);
    index tried = 0;
    index equal = 0;
    for (const int threads : options.threads) {
        models->set_threads(threads);
        for (const index block : options.block_sizes) {
            ++tried;
            equal += print_row(out, block, threads, models->verify(prompts, limits, block)) ? 1 : 0;
        }
    }
    out.write("\n");
    out.write(equal == tried ? "EQUAL" : "DIFFERENT", equal == tried ? style::good : style::bad);
    out.write(joined(": ", equal, " of ", tried, " settings give the tokens and the bits of serial decoding\n"));
    return equal == tried ? 0 : 1;
}

}  // namespace
}  // namespace examples
DFLASH_END_NAMESPACE

int main(int argc, char** argv) {
    using namespace dflash::examples;
    return run_program(program, [&] { return verify(parse(argc, argv)); });
}
