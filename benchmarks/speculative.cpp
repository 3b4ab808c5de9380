// Whole speculative runs on the standard work, with acceptance lengths replayed from a list.
//
// Weights are random, so no draft would stand by itself: what is measured is what rounds cost, and what they would gain
// at the acceptance lengths of the list. The break-even is the mean length at which a round pays for itself.
#include <cstdio>
#include <numeric>
#include <optional>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support/comparison.hpp"
#include "support/dflash_engine.hpp"
#include "support/options.hpp"
#include "support/replayed_acceptance.hpp"

namespace {

using namespace dflash::bench;
using dflash::dtype;
using dflash::size_of;
using dflash::token_id;
using index = dflash::index;

constexpr index kv_bytes = 4;

struct options : common_options {
    std::vector<std::string> types = {"f32", "bf16"};
    std::vector<index> lengths = {16, 3, 7, 1, 9, 5, 12, 2, 6, 4, 8, 5};  // mean 6.5
    std::vector<index> contexts = {128, 768};
    index block = 16;
    index tokens = 240;
    int calls = 3;
};

options parse(int argc, const char* const* argv) {
    options o;
    CLI::App app("Measures whole speculative runs with random weights and replayed acceptance lengths.");
    add_common_options(app, o);
    app.add_option("--types", o.types, "f32, bf16")->delimiter(',')->capture_default_str();
    app.add_option("--replay-acceptance", o.lengths, "tokens that rounds commit, gone through in circles")
        ->transform(dflash::examples::whole_number(1, 256))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--contexts", o.contexts, "lengths of the prompt")
        ->transform(dflash::examples::whole_number(2, 32768))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--block", o.block, "block length, the anchor included")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(2, 256));
    app.add_option("--tokens", o.tokens, "tokens of a run")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(2, 4096));
    app.add_option("--calls", o.calls, "timed calls of each part in a round; their median counts")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(1, 1000));
    dflash::examples::parse_arguments(app, argc, argv);
    if (o.lengths.empty()) {
        dflash::raise<dflash::config_error>("--replay-acceptance: got an empty list, needs at least one length");
    }
    for (const index length : o.lengths) {
        if (length < 1 || length > o.block) {
            dflash::raise<dflash::config_error>("--replay-acceptance: got ", length, ", needs 1 .. ", o.block,
                                                " (the block length)");
        }
    }
    return o;
}

/// Target, draft and decoders over one backend.
template <class Ops>
class pair_under_test {
public:
    using target_type = dflash::target_transformer<Ops>;
    using draft_type = dflash::draft_transformer<Ops>;
    using drafter_type = dflash::dflash_drafter<draft_type, target_type>;

    pair_under_test(const work& w, const Ops& ops, const options& o)
        : options_(o),
          target_(w.target, w.target_tensors, w.draft->taps, ops),
          draft_(*w.draft, w.draft_tensors, ops),
          drafter_(draft_, target_),
          script_{o.lengths, 0},
          serial_(target_),
          speculative_(target_, drafter_, dflash::fixed_block(o.block), dflash::greedy{},
                       replayed_acceptance(script_)) {}

    /// Seconds per token after prefill, and what a run did.
    dflash::decode_stats run_serial(std::span<const token_id> prompt) {
        return serial_.generate(prompt, limits()).stats;
    }
    dflash::decode_stats run_speculative(std::span<const token_id> prompt) {
        script_.next = 0;
        return speculative_.generate(prompt, limits()).stats;
    }

    /// One pass of the draft over a block behind a context, head and choice included.
    [[nodiscard]] double draft_seconds(std::span<const token_id> prompt, index block) {
        prepare(prompt);
        std::vector<token_id> drafts(static_cast<std::size_t>(block - 1));
        return settled_seconds(options_.calls, [&] {
            dflash::draft_output<> out{.tokens = drafts, .count = 0, .law = {}};
            drafter_.propose({.committed = prompt, .block = block, .noise = {}}, out);
        });
    }

    /// One forward of the target with features and all logits.
    [[nodiscard]] double verify_seconds(std::span<const token_id> prompt, index rows) {
        prepare(prompt);
        dflash::buffer<float> logits(rows * target_.vocab_size());
        dflash::buffer<float> features(rows * target_.feature_size());
        return settled_seconds(options_.calls, [&] {
            target_.forward(prompt.first(static_cast<std::size_t>(rows)), *cache_,
                            {logits.matrix(rows, target_.vocab_size()), features.matrix(rows, target_.feature_size())});
            cache_->crop(size_of(prompt) - 1);
        });
    }

private:
    [[nodiscard]] dflash::generation_limits limits() const {
        dflash::generation_limits l;
        l.max_new_tokens = options_.tokens;
        return l;
    }

    /// Caches of both models filled for positions 0 .. prompt - 2.
    void prepare(std::span<const token_id> prompt) {
        const index context = size_of(prompt) - 1;
        if (cache_ && cache_->length() == context && drafter_.context_length() == context) {
            return;
        }
        cache_.emplace(target_.make_cache(context + options_.block + 1));
        fill_cache(*cache_, target_.shape().layers, context, cached_rows(target_.shape()));
        drafter_.reset();
        dflash::buffer<float> features(context * target_.feature_size());
        drafter_.commit(prompt.first(static_cast<std::size_t>(context)),
                        features.matrix(context, target_.feature_size()));
    }

    const options& options_;
    target_type target_;
    draft_type draft_;
    drafter_type drafter_;
    acceptance_script script_;
    std::optional<typename Ops::cache_type> cache_;
    dflash::serial_decoder<target_type> serial_;
    dflash::speculative_decoder<target_type, drafter_type, dflash::greedy, replayed_acceptance, dflash::fixed_block,
                                dflash::no_observer, dflash::allow_numeric_drift>
        speculative_;
};

/// Seconds that tokens took after prefill.
double decode_seconds(const dflash::decode_stats& s) {
    return s.draft_seconds + s.verify_seconds + s.sample_seconds;
}

/// What the rounds of a run ask for at least, and so many serial steps.
struct bounds {
    double serial = 0;
    double speculative = 0;
};

bounds roofline_bounds(const work& w, index context, const dflash::decode_stats& run, index block, double bandwidth,
                       double peak, double f32_peak) {
    bounds b;
    index cached = context;
    for (const index committed : run.acceptance_lengths) {
        // Parts wait for each other, so each is bounded by itself.
        b.speculative += draft_cost(w, cached, block, kv_bytes).seconds(bandwidth, peak, f32_peak) +
                         step_cost(w, cached, block, block, kv_bytes).seconds(bandwidth, peak, f32_peak) +
                         inject_cost(w, committed).seconds(bandwidth, peak, f32_peak);
        for (index i = 0; i < committed; ++i) {
            b.serial += step_cost(w, cached + i, 1, 1, kv_bytes).seconds(bandwidth, peak, f32_peak);
        }
        cached += committed;
    }
    return b;
}

class speculative_program {
public:
    explicit speculative_program(options o)
        : options_(std::move(o)),
          probe_(options_.threads),
          others_(options_.patience),
          peaks_(measure_peaks(options_.threads)) {
        out_ = preamble("bench-speculative", options_.threads, peaks_);
        out_["rounds"] = options_.rounds;
        out_["replayed_acceptance_lengths"] = options_.lengths;
        out_["block"] = options_.block;
        out_["tokens"] = options_.tokens;
    }

    int run() {
        const double mean = static_cast<double>(std::accumulate(options_.lengths.begin(), options_.lengths.end(), 0L)) /
                            static_cast<double>(options_.lengths.size());
        std::printf("standard work, block %td, runs of %td tokens, %d threads, %d rounds\n", options_.block,
                    options_.tokens, options_.threads, options_.rounds);
        std::printf(
            "REPLAYED acceptance: random weights, lengths from a list (mean %.2f); costs are real, the text is "
            "not\n",
            mean);
        for (const std::string& type : options_.types) {
            const std::unique_ptr<work> w = make_work("standard", type_named(type));
            // Another way to run the library is one more line like this one.
            measure("dflash", *w, dflash::cpu::exact({.threads = options_.threads}), peaks_.fma);
            if (w->type == dflash::dtype::bf16) {
                const dflash::cpu::exact_options tier{.threads = options_.threads,
                                                      .activation = dflash::activation_type::bf16};
                measure("dflash bf16 tier", *w, dflash::cpu::exact(tier),
                        peaks_.bf16_dot > 0 ? peaks_.bf16_dot : peaks_.fma);
            }
        }
        if (!options_.json.empty()) {
            write_json(options_.json, out_);
        }
        return 0;
    }

private:
    template <class Ops>
    void measure(const std::string& name, const work& w, const Ops& ops, double peak) {
        pair_under_test<Ops> pair(w, ops, options_);
        for (const index context : options_.contexts) {
            measure_context(pair, name, w, context, peak);
        }
    }

    template <class Pair>
    void measure_context(Pair& pair, const std::string& name, const work& w, index context, double peak) {
        const std::vector<token_id> prompt = random_tokens(context, w.target.vocab_size, 17);
        const index b = options_.block;
        cell parts;
        parts.labels = {{"kind", "parts"}, {"work", w.name}, {"type", type_text(w.type)}, {"context", context}};
        const auto part = [&](const std::string& what, cost least) {
            parts.all.push_back(
                {.name = what, .seconds = {}, .attention = {}, .least = least, .peak = peak, .f32_peak = peaks_.fma});
        };
        part("serial step", step_cost(w, context, 1, 1, kv_bytes));
        part("draft of 8", draft_cost(w, context, 8, kv_bytes));
        part("draft of 16", draft_cost(w, context, 16, kv_bytes));
        part("verify " + std::to_string(b), step_cost(w, context, b, b, kv_bytes));

        std::vector<double> serial;
        std::vector<double> cycle;
        std::vector<double> speedup;
        std::vector<double> allowed;
        std::vector<double> of_roofline;
        std::vector<double> outside;  // share of a run that is neither the draft's nor the target's work
        double tau = 0;
        for (int round = 0; round < options_.rounds; ++round) {
            std::vector<double> reads;
            double seconds[4] = {};
            dflash::decode_stats plain;
            dflash::decode_stats fast;
            double whole = 0;
            parts.others.push_back(others_.undisturbed([&] {
                reads.clear();
                const auto read = [&] { reads.push_back(probe_.bytes_per_second()); };
                read();
                seconds[0] = pair.verify_seconds(prompt, 1);
                read();
                seconds[1] = pair.draft_seconds(prompt, 8);
                read();
                seconds[2] = pair.draft_seconds(prompt, 16);
                read();
                seconds[3] = pair.verify_seconds(prompt, b);
                read();
                plain = pair.run_serial(prompt);
                read();
                whole = seconds_of([&] { fast = pair.run_speculative(prompt); });
                read();
            }));
            for (std::size_t i = 0; i < std::size(seconds); ++i) {
                parts.all[i].seconds.push_back(seconds[i]);
            }
            parts.bandwidth.push_back(median(reads));
            const double serial_step = decode_seconds(plain) / static_cast<double>(plain.tokens - 1);
            const double per_token = decode_seconds(fast) / static_cast<double>(fast.tokens - 1);
            const bounds least = roofline_bounds(w, context, fast, b, parts.bandwidth.back(), peak, peaks_.fma);
            serial.push_back(serial_step);
            cycle.push_back(decode_seconds(fast) / static_cast<double>(fast.rounds));
            speedup.push_back(serial_step / per_token);
            allowed.push_back(least.serial / least.speculative);
            of_roofline.push_back(least.speculative / decode_seconds(fast));
            outside.push_back(1 - (fast.draft_seconds + fast.verify_seconds) / (whole - fast.prefill_seconds));
            tau = fast.mean_acceptance_length();
        }
        const std::vector<double> break_even = ratios(cycle, serial);
        std::printf("\n%s, %s weights, prompt %td, replayed mean %.2f\n", name.c_str(), type_text(w.type), context,
                    tau);
        std::printf("  serial step %s ms, cycle %s ms, break-even acceptance %.2f\n", milliseconds_text(serial).c_str(),
                    milliseconds_text(cycle).c_str(), median(break_even));
        std::printf(
            "  speculative %.2f x serial (%.2f .. %.2f); the roofline allows %.2f; the run reaches %.2f of it\n",
            median(speedup), percentile(speedup, 0.1), percentile(speedup, 0.9), median(allowed), median(of_roofline));
        std::printf("  sampling, committing and the rest: %.2f %% of a round\n", 100 * median(outside));
        for (const measured& m : parts.all) {
            std::printf("  %-12s %s ms, f %.2f, %.2f x serial step\n", m.name.c_str(),
                        milliseconds_text(m.seconds).c_str(), median(parts.roofline(m)),
                        median(ratios(m.seconds, parts.all.front().seconds)));
        }
        std::fflush(stdout);
        out_["cells"].push_back(parts.json());
        out_["runs"].push_back({{"name", name},
                                {"type", type_text(w.type)},
                                {"prompt", context},
                                {"acceptance", "replayed"},
                                {"mean_acceptance_length", tau},
                                {"serial_step_seconds", serial},
                                {"cycle_seconds", cycle},
                                {"break_even_acceptance", median(break_even)},
                                {"times_serial", speedup},
                                {"times_serial_median", median(speedup)},
                                {"roofline_allows", median(allowed)},
                                {"of_roofline", median(of_roofline)},
                                {"outside_draft_and_verify", median(outside)}});
    }

    options options_;
    memory_probe probe_;
    neighbours others_;
    compute_peaks peaks_;
    nlohmann::ordered_json out_;
};

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-speculative",
                                         [&] { return speculative_program(parse(argc, argv)).run(); });
}
