// dflash-acceptance: how often drafts stand at a temperature, by how they are chosen, beside what is possible.
//
// Every choice of drafts is lossless, so only the acceptance differs. Prints a table in Markdown, the same on every
// machine. Exit status: 0, or 2 for usage and files.
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <dflash/decode/speculative.hpp>
#include <dflash/default_backend.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "acceptance/slots.hpp"
#include "common/models.hpp"
#include "common/text.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {
namespace {

using target_type = target_transformer<default_backend>;
using draft_type = draft_transformer<default_backend>;

struct options {
    std::string pair = "worked-problems";
    std::string target;
    std::string draft;
    std::string prompts;
    std::vector<float> temperatures = {0.7F, 1.0F};
    index block = 16;
    index seeds = 4;
    index max_new_tokens = 120;
    bool synthetic = false;
};

std::vector<std::string> read_prompts(const std::string& path) {
    try {
        return nlohmann::json::parse(read_text(path)).get<std::vector<std::string>>();
    } catch (const nlohmann::json::exception& failure) {
        raise<io_error>(path, ": needs a JSON list of strings: ", failure.what());
    }
}

std::string number(double value, int decimals) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return text.data();
}

std::string percent(double sum, index count) {
    return count == 0 ? "-" : number(100 * sum / static_cast<double>(count), 1);
}

class measurement {
public:
    explicit measurement(const options& wanted)
        : wanted_(wanted),
          target_folder_(wanted.target.empty() ? (shipped_pair(wanted.pair) / "target").string() : wanted.target),
          draft_folder_(wanted.draft.empty() ? (shipped_pair(wanted.pair) / "draft").string() : wanted.draft),
          loaded_(io::load_pair(target_folder_, draft_folder_)),
          target_(loaded_.target.shape, loaded_.target.weights, loaded_.draft.shape.taps),
          draft_(loaded_.draft.shape, loaded_.draft.weights) {
        const std::optional<tokenizer> words = find_tokenizer(target_folder_);
        if (!words) {
            raise<config_error>(target_folder_, ": has no tokenizer.json, so prompts cannot become tokens");
        }
        for (const std::string& text :
             read_prompts(wanted.prompts.empty() ? DFLASH_PROMPTS "/" + wanted.pair + ".json" : wanted.prompts)) {
            prompts_.push_back(words->encode(text, true));
        }
        limits_.max_new_tokens = wanted.max_new_tokens;
        limits_.stop_tokens = loaded_.target.shape.eos_tokens;
    }

    void print(terminal& out, float temperature) {
        const sampling_options law{.temperature = temperature};
        slot_sums sums;
        std::vector<float> rows;
        const slot_recorder recorder(sums, rows, law);
        const double coupled = lengths<sample_and_match>(coupled_drafts<>(law), law, recorder);
        const slot_sums found = sums;
        const double independent = lengths<sample_and_match>(sampled_drafts<>(law), law, recorder);
        const double best = lengths<sample_and_match>(argmax_drafts{}, law, recorder);
        const double rejected = lengths<rejection_sampling<>>(sampled_drafts<>(law), law, recorder);
        out.write(joined("| ", wanted_.pair, " | ", number(static_cast<double>(temperature), 1), " | ", found.slots,
                         " | ", percent(found.optimum, found.slots), " | ",
                         percent(static_cast<double>(found.agreed), found.slots), " | ",
                         percent(found.coupled, found.slots), " | ", percent(found.best_token, found.slots), " | ",
                         percent(found.independent, found.slots), " | ", number(coupled, 2), " | ", number(best, 2),
                         " | ", number(independent, 2), " | ", number(rejected, 2), " |\n"));
        terminal::flush();
    }

private:
    /// Mean acceptance length over all prompts and seeds.
    template <class Rule, class Choice>
    double lengths(Choice choice, const sampling_options& law, const slot_recorder& recorder) {
        dflash_drafter<draft_type, target_type, slot_recorder, Choice> drafter(draft_, target_, recorder,
                                                                               std::move(choice));
        speculative_decoder<target_type, decltype(drafter), categorical<>, Rule, fixed_block, slot_recorder> decoder(
            target_, drafter, fixed_block(wanted_.block), categorical<>(law), {}, recorder);
        double tokens = 0;
        double rounds = 0;
        for (const std::vector<token_id>& prompt : prompts_) {
            for (index seed = 0; seed < wanted_.seeds; ++seed) {
                const decode_stats stats =
                    decoder.generate(prompt, limits_, noise_key{static_cast<std::uint64_t>(seed)}).stats;
                tokens += stats.mean_acceptance_length() * static_cast<double>(stats.rounds);
                rounds += static_cast<double>(stats.rounds);
            }
        }
        return rounds == 0 ? 0 : tokens / rounds;
    }

    options wanted_;
    std::string target_folder_;
    std::string draft_folder_;
    io::pair_checkpoint loaded_;
    target_type target_;
    draft_type draft_;
    std::vector<std::vector<token_id>> prompts_;
    generation_limits limits_;
};

/// Laws of 1000 tokens: p from logits of deviation 3, q from the same logits with an error of a given deviation.
void print_synthetic(terminal& out, float error, float temperature) {
    constexpr index vocab = 1000;
    constexpr index slots = 4000;
    token_filter filter({.temperature = temperature});
    slot_sums sums;
    std::vector<float> p(vocab);
    std::vector<float> q(vocab);
    const auto normal = [](index slot, index token, noise_stream stream) {
        // The logarithm of a ratio of two exponentials is logistic: near enough to normal, with deviation 1.81.
        const auto id = static_cast<token_id>(token);
        return (philox_noise::gumbel({1}, stream, 2 * slot, id) - philox_noise::gumbel({1}, stream, 2 * slot + 1, id)) /
               1.8138F;
    };
    for (index slot = 0; slot < slots; ++slot) {
        for (index t = 0; t < vocab; ++t) {
            p[static_cast<std::size_t>(t)] = 3.0F * normal(slot, t, noise_stream::redraw);
            q[static_cast<std::size_t>(t)] =
                p[static_cast<std::size_t>(t)] + error * normal(slot, t, noise_stream::accept);
        }
        static_cast<void>(filter.apply(p) && filter.apply(q));
        const token_id own = philox_noise::draw({7}, noise_stream::token, slot, p);
        sums.add(p, q, own == philox_noise::draw({7}, noise_stream::token, slot, q));
    }
    out.write(joined("| ", number(static_cast<double>(error), 1), " | ", number(static_cast<double>(temperature), 1),
                     " | ", sums.slots, " | ", percent(sums.optimum, sums.slots), " | ",
                     percent(static_cast<double>(sums.agreed), sums.slots), " | ", percent(sums.coupled, sums.slots),
                     " | ", percent(sums.best_token, sums.slots), " | ", percent(sums.independent, sums.slots),
                     " |\n"));
}

int measure(const options& wanted) {
    terminal out;
    if (wanted.synthetic) {
        out.write(
            "| error | T | slots | optimum 1 - TV | coupled | promised | argmax | independent |\n"
            "|---|---|---|---|---|---|---|---|\n");
        for (const float error : {0.0F, 0.3F, 1.0F, 3.0F}) {
            for (const float temperature : wanted.temperatures) {
                print_synthetic(out, error, temperature);
            }
        }
        return 0;
    }
    measurement pair(wanted);
    out.write(
        "| pair | T | slots | optimum 1 - TV | coupled | promised | argmax | independent "
        "| tokens a round: coupled | argmax | independent | rejection |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const float temperature : wanted.temperatures) {
        pair.print(out, temperature);
    }
    return 0;
}

}  // namespace
}  // namespace examples
DFLASH_END_NAMESPACE

int main(int argc, char** argv) {
    using namespace dflash::examples;
    return run_program("dflash-acceptance", [&] {
        options wanted;
        CLI::App app("Measures how often drafts stand, in percent of the slots looked at, and tokens a round.");
        app.add_option("--pair", wanted.pair, "A pair that comes with the project")->capture_default_str();
        app.add_option("--target", wanted.target, "Folder of another target")->type_name("DIR");
        app.add_option("--draft", wanted.draft, "Folder of its draft")->type_name("DIR");
        app.add_option("--prompts", wanted.prompts, "A JSON list of prompts")->type_name("FILE");
        app.add_option("--temperature", wanted.temperatures, "Temperatures")->delimiter(',');
        app.add_option("--block-size", wanted.block, "Block length")->transform(whole_number(1, 4096));
        app.add_option("--seeds", wanted.seeds, "Seeds for each prompt")->transform(whole_number(1, 100000));
        app.add_option("--max-new-tokens", wanted.max_new_tokens, "Budget")->transform(whole_number(1, 1 << 20));
        app.add_flag("--synthetic", wanted.synthetic, "Made-up laws instead of models");
        parse_arguments(app, argc, argv);
        return measure(wanted);
    });
}
