// dflash-constrained: text that matches a regular expression, with a draft that knows nothing of it.
//
// The constraint hears of committed tokens and, in a copy, of accepted drafts, never of rejected ones; so the text is
// what decoding token by token gives, which is checked. Exit status: 0, 1 when the two differ, 2 for usage and files.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/default_backend.hpp>
#include <dflash/front/model_pair.hpp>
#include <dflash/sampling/constrained.hpp>

#include "common/models.hpp"
#include "common/text.hpp"
#include "constrained/regex_constraint.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace {

using pair_type = model_pair<default_backend>;
using sampler_type = constrained<categorical<>, regex_constraint>;

struct options {
    std::string prompt = "Add 53 and 666.\n";
    std::string regex = "((Ones|Tens|Hundreds): [^\\n]+\\n)+Answer: [0-9]+";
    float temperature = 0;
    std::uint64_t seed = 0;
    index max_new_tokens = 100;
};

std::shared_ptr<const token_pattern> pattern_of(const std::string& regex, const tokenizer& words, index vocab,
                                                std::vector<token_id> ends) {
    std::vector<std::string> texts(static_cast<std::size_t>(vocab));
    for (token_id id = 0; id < static_cast<token_id>((std::min)(vocab, words.vocab_size())); ++id) {
        try {
            texts[static_cast<std::size_t>(id)] = words.is_special(id) ? "" : std::string(words.token_bytes(id));
        } catch (const config_error&) {
            continue;  // vocabularies are padded with ids that no token has
        }
    }
    return std::make_shared<const token_pattern>(regex, std::move(texts), std::move(ends));
}

int decode(const options& wanted) {
    const std::string folder = shipped_pair("worked-problems").string();
    const tokenizer words = tokenizer::load(folder + "/target/tokenizer.json");
    pair_type pair(folder + "/target", folder + "/draft");
    const std::vector<token_id> ends = pair.target().shape().eos_tokens;
    const sampler_type sampler(categorical<>({.temperature = wanted.temperature}),
                               regex_constraint(pattern_of(wanted.regex, words, pair.target().vocab_size(), ends)));
    const std::vector<token_id> prompt = encode_prompt("dflash-constrained", words, wanted.prompt);
    generation_limits limits;
    limits.max_new_tokens = wanted.max_new_tokens;
    limits = pair.with_eos(limits);

    speculative_decoder<pair_type::target_type, pair_type::drafter_type, sampler_type> speculative(
        pair.target(), pair.drafter(), fixed_block(pair.block_size()), sampler);
    serial_decoder<pair_type::target_type, sampler_type> serial(pair.target(), sampler);
    const generation_result text = speculative.generate(prompt, limits, noise_key{wanted.seed});
    const generation_result plain = serial.generate(prompt, limits, noise_key{wanted.seed});

    const bool equal = text.tokens == plain.tokens && text.reason == plain.reason;
    terminal out;
    out.write(joined(token_text::all(words, text.tokens), "\n\n", "ended by: ", name_of(text.reason),
                     "\nrounds: ", text.stats.rounds, " for ", text.stats.tokens,
                     " tokens\nthe same as token by token: ", equal ? "yes" : "NO", "\n"));
    return equal ? 0 : 1;
}

}  // namespace
}  // namespace examples
DFLASH_END_NAMESPACE

int main(int argc, char** argv) {
    using namespace dflash::examples;
    return run_program("dflash-constrained", [&] {
        options wanted;
        CLI::App app(
            "Generates text that matches a regular expression, speculatively, and compares with serial decoding.");
        app.add_option("--prompt", wanted.prompt, "The prompt")->capture_default_str();
        app.add_option("--regex", wanted.regex, "What the text must match, from its first to its last byte")
            ->capture_default_str();
        app.add_option("--temperature", wanted.temperature, "0: the best allowed token")->capture_default_str();
        app.add_option("--seed", wanted.seed, "The key of all draws")->capture_default_str();
        app.add_option("--max-new-tokens", wanted.max_new_tokens, "Budget")
            ->transform(whole_number(0, dflash::index{1} << 30))
            ->capture_default_str();
        parse_arguments(app, argc, argv);
        return decode(wanted);
    });
}
