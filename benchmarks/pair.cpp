// A real pair against serial decoding of its own target: at fixed block lengths and with adaptive_block, problem by
// problem, with what its rounds move and multiply by count.
//
// All ways of decoding take turns within a round, and each must give the serial tokens. Times are of whole runs,
// prompts included. Counted bytes (every weight once, and the cache) over time is the speed of reading that a way asked
// for; for a model that fits into a cache it passes the memory's.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/adaptive_block.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "common/models.hpp"
#include "support/comparison.hpp"
#include "support/options.hpp"

namespace {

using namespace dflash::bench;
using dflash::size_of;
using dflash::token_id;
using index = dflash::index;

constexpr index kv_bytes = 4;

struct options : common_options {
    std::string pair = "problems-and-records";
    std::string problems;
    std::vector<std::string> activations = {"f32", "bf16"};
    std::vector<index> blocks = {4, 8, 12, 16};
};

options parse(int argc, const char* const* argv) {
    options o;
    CLI::App app("Measures a pair of models on its problems, in blocks against one token at a time.");
    add_common_options(app, o);
    app.add_option("--pair", o.pair, "name of a pair that comes with the project")->capture_default_str();
    app.add_option("--problems", o.problems, "JSON: a list of objects with prompt_ids and max_new_tokens")
        ->default_str("tests/golden/models/<pair>/problems.json");
    app.add_option("--activations", o.activations, "f32, bf16: the exact backend's inputs of linears")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--blocks", o.blocks, "block lengths, the anchor included; the largest also bounds adaptive_block")
        ->transform(dflash::examples::whole_number(2, 256))
        ->delimiter(',')
        ->capture_default_str();
    dflash::examples::parse_arguments(app, argc, argv);
    if (o.blocks.empty()) {
        dflash::raise<dflash::config_error>("--blocks: got an empty list, needs at least one length");
    }
    return o;
}

struct problem {
    std::vector<token_id> prompt;
    dflash::generation_limits limits;
};

std::vector<problem> read_problems(const std::string& path, const dflash::target_shape& shape) {
    std::ifstream file(path);
    if (!file) {
        dflash::raise<dflash::io_error>("--problems: cannot read ", path);
    }
    std::vector<problem> out;
    for (const nlohmann::json& one : nlohmann::json::parse(file)) {
        problem& p = out.emplace_back();
        p.prompt = one.at("prompt_ids").get<std::vector<token_id>>();
        p.limits.max_new_tokens = one.at("max_new_tokens").get<index>();
        p.limits.stop_tokens = shape.eos_tokens;
    }
    if (out.empty()) {
        dflash::raise<dflash::config_error>("--problems: ", path, " holds no problem");
    }
    return out;
}

/// What one way of decoding did with all problems in one turn.
struct turn {
    std::vector<std::vector<token_id>> texts;
    double seconds = 0;          ///< whole runs
    double prefill_seconds = 0;  ///< share of it that prompts took
    index tokens = 0;            ///< after prefill, which gives the first of each text
    index rounds = 0;
    cost counted;  ///< of the rounds
};

double decode_seconds(const turn& t) {
    return t.seconds - t.prefill_seconds;
}

/// One way of decoding all problems.
struct way {
    std::string name;
    std::function<turn()> run;
};

class pair_under_test {
public:
    using ops = dflash::cpu::exact;
    using target_type = dflash::target_transformer<ops>;
    using draft_type = dflash::draft_transformer<ops>;
    using drafter_type = dflash::dflash_drafter<draft_type, target_type>;

    pair_under_test(const work& w, const ops& backend)
        : work_(w),
          target_(w.target, w.target_tensors, w.draft->taps, backend),
          draft_(*w.draft, w.draft_tensors, backend),
          drafter_(draft_, target_),
          serial_(target_) {}

    turn serial(const std::vector<problem>& problems) { return run(serial_, problems, false); }

    template <class Policy>
    [[nodiscard]] std::function<turn()> speculative(Policy policy, const std::vector<problem>& problems) {
        using decoder =
            dflash::speculative_decoder<target_type, drafter_type, dflash::greedy, dflash::sample_and_match, Policy>;
        auto made = std::make_shared<decoder>(target_, drafter_, std::move(policy));
        return [this, made, &problems] { return run(*made, problems, true); };
    }

private:
    template <class Decoder>
    turn run(Decoder& decoder, const std::vector<problem>& problems, bool drafter) {
        turn out;
        for (const problem& p : problems) {
            dflash::generation_result result;
            out.seconds += seconds_of([&] { result = decoder.generate(p.prompt, p.limits); });
            const dflash::decode_stats& stats = result.stats;
            out.prefill_seconds += stats.prefill_seconds;
            out.tokens += size_of(std::span(result.tokens)) - 1;
            out.rounds += size_of(std::span(stats.acceptance_lengths));
            count(out.counted, size_of(std::span(p.prompt)), stats, drafter);
            out.texts.push_back(std::move(result.tokens));
        }
        return out;
    }

    /// The cost of a run's rounds. Serial decoding has no drafter whose cache must follow.
    void count(cost& sum, index cached, const dflash::decode_stats& stats, bool drafter) const {
        for (std::size_t r = 0; r < stats.acceptance_lengths.size(); ++r) {
            const index committed = stats.acceptance_lengths[r];
            const index block = drafter ? stats.block_lengths[r] : 1;
            sum = sum + step_cost(work_, cached, block, block, kv_bytes);
            if (block > 1) {
                sum = sum + draft_cost(work_, cached, block, kv_bytes);
            }
            if (drafter) {
                sum = sum + inject_cost(work_, committed);
            }
            cached += committed;
        }
    }

    const work& work_;
    target_type target_;
    draft_type draft_;
    drafter_type drafter_;
    dflash::serial_decoder<target_type> serial_;
};

std::unique_ptr<work> load_work(const std::string& name, const std::filesystem::path& folder,
                                const dflash::io::pair_checkpoint& loaded) {
    auto w = std::make_unique<work>();
    w->name = name;
    w->type = loaded.target.weights.embedding.type;
    if (w->type != dflash::dtype::f32 && w->type != dflash::dtype::bf16) {
        dflash::raise<dflash::config_error>(folder.string(), ": embedding is of another type than f32 and bf16");
    }
    w->target = loaded.target.shape;
    w->target_tensors = loaded.target.weights;
    w->draft = loaded.draft.shape;
    w->draft_tensors = loaded.draft.weights;
    return w;
}

class pair_program {
public:
    explicit pair_program(options o)
        : options_(std::move(o)),
          folder_(dflash::examples::shipped_pair(options_.pair)),
          loaded_(dflash::io::load_pair(folder_ / "target", folder_ / "draft")),
          work_(load_work(options_.pair, folder_, loaded_)),
          problems_(read_problems(problems_file(), work_->target)),
          probe_(options_.threads),
          others_(options_.patience),
          peaks_(measure_peaks(options_.threads)) {
        out_ = preamble("bench-pair", options_.threads, peaks_);
        out_["rounds"] = options_.rounds;
        out_["pair"] = options_.pair;
        out_["problems"] = problems_.size();
    }

    int run() {
        std::printf("%s, %zu problems, %d threads, %d rounds, weights %s; %.0f GFLOP/s of f32, %.0f of bf16\n",
                    options_.pair.c_str(), problems_.size(), options_.threads, options_.rounds, type_text(work_->type),
                    peaks_.fma / 1e9, peaks_.bf16_dot / 1e9);
        bool same = true;
        for (const std::string& activation : options_.activations) {
            same = measure(activation) && same;
        }
        if (!options_.json.empty()) {
            write_json(options_.json, out_);
        }
        return same ? 0 : 1;
    }

private:
    [[nodiscard]] std::string problems_file() const {
        return options_.problems.empty()
                   ? (folder_ / "../../../tests/golden/models" / options_.pair / "problems.json").string()
                   : options_.problems;
    }

    bool measure(const std::string& activation) {
        const dflash::cpu::exact backend(
            {.threads = options_.threads,
             .activation = activation == "f32" ? dflash::activation_type::f32 : dflash::activation_type::bf16});
        pair_under_test pair(*work_, backend);
        std::vector<way> ways = {{"serial", [&] { return pair.serial(problems_); }}};
        for (const index block : options_.blocks) {
            ways.push_back({"block " + std::to_string(block), pair.speculative(dflash::fixed_block(block), problems_)});
        }
        const index most = *std::max_element(options_.blocks.begin(), options_.blocks.end());
        ways.push_back({"adaptive", pair.speculative(dflash::adaptive_block(most), problems_)});

        std::vector<std::vector<turn>> turns(ways.size());
        std::vector<double> bandwidth;
        std::vector<double> used;
        for (const way& w : ways) {
            (void)w.run();  // warms up, and lets adaptive_block learn what rounds cost
        }
        for (int round = 0; round < options_.rounds; ++round) {
            std::vector<turn> now(ways.size());
            double read = 0;
            used.push_back(others_.undisturbed([&] {
                std::vector<double> reads;
                for (std::size_t i = 0; i < ways.size(); ++i) {
                    reads.push_back(probe_.bytes_per_second());
                    now[i] = ways[i].run();
                }
                read = median(reads);
            }));
            bandwidth.push_back(read);
            for (std::size_t i = 0; i < ways.size(); ++i) {
                turns[i].push_back(std::move(now[i]));
            }
        }
        return report(activation, ways, turns, bandwidth, used);
    }

    bool report(const std::string& activation, const std::vector<way>& ways,
                const std::vector<std::vector<turn>>& turns, const std::vector<double>& bandwidth,
                const std::vector<double>& used) {
        const auto each = [](const std::vector<turn>& of, auto value) {
            std::vector<double> out;
            for (const turn& t : of) {
                out.push_back(value(t));
            }
            return out;
        };
        const auto whole = [](const turn& t) { return t.seconds; };
        std::printf("\ninputs of linears %s, reads at %.0f GB/s, others used %.0f %%\n", activation.c_str(),
                    median(bandwidth) / 1e9, 100 * median(used));
        std::printf("%-10s %7s %9s %19s %8s %8s %8s %6s %8s %s\n", "", "tokens", "ms", "whole runs", "without", "MB",
                    "MFLOP", "GB/s", "GFLOP/s", "outputs");
        std::printf("%-10s %7s %9s %19s %8s %8s %8s\n", "", "a round", "a round", "against serial", "prompts",
                    "a round", "a round");
        bool all_same = true;
        for (std::size_t i = 0; i < ways.size(); ++i) {
            const turn& last = turns[i].back();
            const auto rounds = static_cast<double>(last.rounds);
            const std::vector<double> ratio = ratios(each(turns[0], whole), each(turns[i], whole));
            const std::vector<double> decoding = ratios(each(turns[0], decode_seconds), each(turns[i], decode_seconds));
            const std::vector<double> seconds =
                each(turns[i], [&](const turn& t) { return decode_seconds(t) / static_cast<double>(t.rounds); });
            const double flop = (last.counted.flop + last.counted.attention_flop) / rounds;
            const double bytes = last.counted.bytes / rounds;
            bool same = true;
            for (std::size_t r = 0; r < turns[i].size(); ++r) {
                same = same && turns[i][r].texts == turns[0][r].texts;
            }
            all_same = all_same && same;
            std::printf("%-10s %7.2f %9.3f %6.2f (%5.2f ..%5.2f) %8.2f %8.1f %8.1f %6.1f %8.1f %s\n",
                        ways[i].name.c_str(), static_cast<double>(last.tokens) / rounds, 1e3 * median(seconds),
                        median(ratio), percentile(ratio, 0.1), percentile(ratio, 0.9), median(decoding), bytes / 1e6,
                        flop / 1e6, bytes / median(seconds) / 1e9, flop / median(seconds) / 1e9,
                        same ? "the same" : "DIFFERENT");
            out_["runs"].push_back({{"activation", activation},
                                    {"way", ways[i].name},
                                    {"tokens_a_round", static_cast<double>(last.tokens) / rounds},
                                    {"seconds_a_round", seconds},
                                    {"times_serial", ratio},
                                    {"times_serial_without_prompts", decoding},
                                    {"bytes_a_round", bytes},
                                    {"flop_a_round", flop},
                                    {"bandwidth", bandwidth},
                                    {"identical", same}});
        }
        std::fflush(stdout);
        return all_same;
    }

    options options_;
    std::filesystem::path folder_;
    dflash::io::pair_checkpoint loaded_;
    std::unique_ptr<work> work_;
    std::vector<problem> problems_;
    memory_probe probe_;
    neighbours others_;
    compute_peaks peaks_;
    nlohmann::ordered_json out_;
};

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-pair", [&] { return pair_program(parse(argc, argv)).run(); });
}
