// The command line of dflash-generate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/engine.hpp"
#include "common/models.hpp"
#include "common/program.hpp"
#include "common/sampling_flags.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

struct generate_options {
    engine_options engine;
    std::string prompt;
    std::string prompt_file;
    std::string tokens;
    bool has_prompt = false;
    bool has_tokens = false;
    generation_limits limits;
    bool ignore_eos = false;
    bool serial = false;
    bool compare = false;
    bool json = false;
    bool demo = false;
    int pace = -1;  ///< milliseconds after each round; -1: the demo chooses
    std::string dump;
    index logprobs = -1;  ///< likeliest tokens to show beside each; -1: no log-probabilities
    std::string trace;
    color_choice color = color_choice::automatic;
};

/// Errors: config_error.
[[nodiscard]] inline generate_options parse_generate_options(int argc, const char* const* argv) {
    constexpr index many = index{1} << 40;
    generate_options options;
    std::string backend = "exact";
    std::string activation = "f32";
    std::string color = "auto";
    CLI::App app(
        "Generates text with a target model and a DFlash draft: the draft guesses a block of tokens, the target "
        "checks\n"
        "it in one pass. The output is what the target alone would give.",
        "dflash-generate");

    app.add_option("--target", options.engine.target, "Folder of the target model")
        ->type_name("DIR")
        ->default_str("examples/models/worked-problems/target");
    app.add_option("--draft", options.engine.draft, "Folder of its draft")
        ->type_name("DIR")
        ->default_str("examples/models/worked-problems/draft");

    CLI::Option_group* source = app.add_option_group("Prompt", "One of these");
    CLI::Option* prompt = source->add_option("--prompt", options.prompt, "The prompt")->type_name("TEXT");
    source->add_option("--prompt-file", options.prompt_file, "A file that holds the prompt, - for standard input")
        ->type_name("FILE");
    CLI::Option* tokens =
        source->add_option("--tokens", options.tokens, "The prompt as token ids: 1,2,3")->type_name("IDS");
    source->add_flag("--demo", options.demo, "Show what the models that come with the project do");
    source->require_option(0, 1);

    CLI::Option_group* ends = app.add_option_group("Generation");
    ends->add_option("--max-new-tokens", options.limits.max_new_tokens, "Stop after so many tokens")
        ->transform(whole_number(0, many))
        ->type_name("N")
        ->capture_default_str();
    ends->add_option("--block-size", options.engine.block_size, "Tokens checked at once, the last known one included")
        ->transform(whole_number(1, 4096))
        ->type_name("B")
        ->default_str("the draft's own");
    ends->add_flag(
        "--adaptive", options.engine.adaptive,
        "Choose the length of every block by what it costs and how often drafts stand; --block-size is the most");
    ends->add_option("--stop-token", options.limits.stop_tokens,
                     "Stop after this token; may be repeated, and adds to those of the model")
        ->transform(whole_number(0, (std::numeric_limits<token_id>::max)()))
        ->allow_extra_args(false)
        ->type_name("ID");
    ends->add_flag("--ignore-eos", options.ignore_eos, "Do not stop at the end token of the model");
    ends->add_option("--threads", options.engine.threads, "Threads to compute with")
        ->transform(whole_number(1, 4096))
        ->type_name("N")
        ->default_str("all; the demo: one or all, the faster");
    ends->add_option("--backend", backend,
                     "exact, also called cpu; reference: Eigen, whose outputs may differ; cuda: exact on a CUDA device")
        ->check(CLI::IsMember({"exact", "cpu", "reference", "cuda"}))
        ->type_name("NAME")
        ->capture_default_str();
    ends->add_option("--activation", activation,
                     "f32, or bf16: inputs of linears with BF16 weights are rounded to bf16, which is faster")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->type_name("TYPE")
        ->capture_default_str();

    sampling_flags sampling(app);
    sampling.add_acceptance(app);

    CLI::Option_group* what = app.add_option_group("What to run");
    CLI::Option* serial = what->add_flag("--serial", options.serial, "Plain decoding, without a draft");
    CLI::Option* compare = what->add_flag("--compare", options.compare,
                                          "Decode both ways, compare and time them; status 1 if the outputs differ");
    compare->excludes(serial);

    CLI::Option_group* output = app.add_option_group("Output");
    CLI::Option* json = output->add_flag("--json", options.json, "Print one JSON object and nothing else");
    CLI::Option* dump =
        output->add_option("--dump", options.dump, "Write tensors of the first round (safetensors, F32)")
            ->type_name("FILE");
    CLI::Option* trace =
        output->add_option("--trace", options.trace, "Write the rounds (JSON), for dflash-walkthrough --from")
            ->type_name("FILE");
    output
        ->add_option("--logprobs", options.logprobs,
                     "With --json: log-probabilities of every token and of the N likeliest, before bias and filters")
        ->transform(whole_number(0, 1000))
        ->needs(json)
        ->type_name("N");
    output->add_option("--color", color, "Colour: auto, always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN")
        ->capture_default_str();
    output->add_option("--pace", options.pace, "Milliseconds to wait after each round, to watch it")
        ->transform(whole_number(0, 10000))
        ->type_name("MS")
        ->default_str("0; the demo on a terminal: 60");
    dump->excludes(serial);
    trace->excludes(serial);
    parse_arguments(app, argc, argv);
    options.engine.sampling = sampling.choice();
    const bool matching = options.engine.sampling.acceptance == acceptance_kind::match;
    if (serial->count() > 0 && sampling.drafting_chosen()) {
        raise<config_error>("--serial excludes --acceptance and --draft-sampling: there are no drafts");
    }
    if (compare->count() > 0 && !matching) {
        raise<config_error>("--compare needs --acceptance match: other rules give other tokens than plain sampling");
    }
    if (trace->count() > 0 && (!matching || options.engine.sampling.has_penalties())) {
        raise<config_error>(
            "--trace needs --acceptance match and no penalties: it shows what the target says to every draft by "
            "itself");
    }

    options.has_prompt = prompt->count() > 0;
    options.has_tokens = tokens->count() > 0;
    options.engine.backend = backend == "cuda"        ? backend_kind::cuda
                             : backend == "reference" ? backend_kind::reference
                                                      : backend_kind::exact;
    options.engine.activation = activation == "bf16" ? activation_type::bf16 : activation_type::f32;
    options.color = color == "auto"     ? color_choice::automatic
                    : color == "always" ? color_choice::always
                                        : color_choice::never;
    if (options.demo) {
        if (options.engine.backend == backend_kind::cuda) {
            raise<config_error>("--demo excludes --backend cuda: it compares threads of the CPU");
        }
        for (const CLI::Option* other : {serial, compare, json, dump, trace}) {
            if (other->count() > 0) {
                raise<config_error>("--demo excludes ", other->get_name());
            }
        }
        if (!options.engine.target.empty() || !options.engine.draft.empty()) {
            raise<config_error>("--demo shows the models that come with the project; leave out --target and --draft");
        }
        return options;
    }
    if (source->count_all() == 0) {
        raise<config_error>("there is no prompt: give one of --prompt, --prompt-file, --tokens (or --demo)");
    }
    return options;
}

/// Names the folders that were not given. Errors: config_error.
inline void complete_folders(engine_options& engine, bool serial) {
    if (engine.target.empty()) {
        engine.target = (shipped_pair("worked-problems") / "target").string();
        if (engine.draft.empty()) {
            engine.draft = (shipped_pair("worked-problems") / "draft").string();
        }
    }
    if (serial) {
        engine.draft.clear();
    } else if (engine.draft.empty()) {
        raise<config_error>("there is no draft for this target: give one with --draft, or decode with --serial");
    }
}

}  // namespace examples
DFLASH_END_NAMESPACE
