// Whole steps of the target against peers that run the same weights: m rows behind a context, all logits.
//
// In every round all contenders take turns, with a read of memory before each, so that ratios and shares of the
// roofline are those of one moment. A peer counts only while its logits agree with ours.
#include <cstdio>

#include "peers/peers.hpp"
#include "support/comparison.hpp"
#include "support/options.hpp"
#include "support/step_engine.hpp"

namespace {

using namespace dflash::bench;
using dflash::dtype;
using dflash::size_of;
using dflash::token_id;
using index = dflash::index;

constexpr index prefill_rows = 512;

struct options : common_options {
    std::vector<std::string> works = {"standard", "qwen3-0.6b"};
    std::vector<std::string> types = {"f32", "bf16"};
    std::vector<index> contexts = {128, 768, 8192};
    std::vector<index> rows = {1, 2, 4, 8, 16};
    index long_context = 32768;
    int calls = 3;
};

options parse(int argc, const char* const* argv) {
    options o;
    CLI::App app("Measures whole steps of the target: m rows behind a context, all logits.");
    add_common_options(app, o);
    app.add_option("--works", o.works, "standard, qwen3-0.6b")->delimiter(',')->capture_default_str();
    app.add_option("--types", o.types, "f32, bf16 (qwen3-0.6b: bf16 only)")->delimiter(',')->capture_default_str();
    app.add_option("--contexts", o.contexts, "cached positions")
        ->transform(dflash::examples::whole_number(0, 40000))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--rows", o.rows, "rows of a step")
        ->transform(dflash::examples::whole_number(1, 512))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--long-context", o.long_context, "one more context, 16 rows, standard work; 0: none")
        ->transform(dflash::examples::whole_number(0, 40000))
        ->capture_default_str();
    app.add_option("--calls", o.calls, "timed calls of a contender in a round; their median counts")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(1, 1000));
    dflash::examples::parse_arguments(app, argc, argv);
    return o;
}

/// How far logits may be apart. Contenders that round activations to bfloat16 are judged by what that costs.
double tolerance(const contender& c) {
    return c.bf16_dots ? 5e-2 : 1e-2;
}

class steps_program {
public:
    explicit steps_program(options o)
        : options_(std::move(o)),
          probe_(options_.threads),
          others_(options_.patience),
          peaks_(measure_peaks(options_.threads)) {
        set_peer_folder(options_.folder);
        out_ = preamble("bench-steps", options_.threads, peaks_);
        out_["rounds"] = options_.rounds;
        out_["calls"] = options_.calls;
        std::printf("FMA peak %.0f GFLOP/s, bf16 dot peak %.0f GFLOP/s, %d threads, %d rounds\n", peaks_.fma * 1e-9,
                    peaks_.bf16_dot * 1e-9, options_.threads, options_.rounds);
        std::printf(
            "times: median (10 %% .. 90 %%) of the rounds; f: share of the roofline; x ours: median of the "
            "ratios within a round\n");
    }

    int run() {
        for (const std::string& name : options_.works) {
            for (const std::string& type : options_.types) {
                if (name != "qwen3-0.6b" || type == "bf16") {
                    run_work(name, type_named(type));
                }
            }
        }
        if (!options_.json.empty()) {
            write_json(options_.json, out_);
        }
        return 0;
    }

private:
    struct running {
        contender who;
        std::unique_ptr<step_engine> engine;
    };

    void run_work(const std::string& name, dtype type) {
        std::vector<std::string> missing;
        const std::vector<contender> wanted = step_contenders(type, wanted_peers(options_), missing);
        for (const std::string& line : missing) {
            std::printf("%s\n", line.c_str());
            out_["missing"].push_back(line);
        }
        const std::unique_ptr<work> made = make_work(name, type);
        const work& w = *made;
        const cached_rows rows(w.target);
        std::vector<running> all;
        for (const contender& c : wanted) {
            all.push_back({c, c.make(w, options_.threads)});
        }
        made->storage.clear();  // everyone has packed its own

        std::printf("\n%s, %s weights, %.0f MB a step\n", name.c_str(), type_text(type),
                    static_cast<double>(streamed_weights(w.target) * size_of(type)) * 1e-6);
        for (const index context : options_.contexts) {
            run_context(w, rows, all, context, options_.rows);
        }
        if (name == "standard") {
            run_prefill(w, rows, all);
            if (options_.long_context > 0) {
                run_context(w, rows, all, options_.long_context, {16});
            }
        }
        std::fflush(stdout);
    }

    /// Drops the peers whose logits are not ours.
    void check_agreement(const work& w, std::vector<running>& all, index context) {
        const std::vector<token_id> tokens = random_tokens(4, w.target.vocab_size, 7);
        std::vector<float> ours;
        for (auto at = all.begin(); at != all.end();) {
            at->engine->forward(tokens, size_of(std::span(tokens)));
            const std::span<const float> logits = at->engine->logits();
            if (ours.empty()) {
                ours.assign(logits.begin(), logits.end());
            }
            const double difference = relative_difference(ours, logits);
            at->engine->crop(context);
            const bool agrees = difference <= tolerance(at->who);
            if (at != all.begin()) {
                std::printf("  context %td: logits of %s differ by %.1e (rms, relative)%s\n", context,
                            at->who.name.c_str(), difference, agrees ? "" : ": not the same work, left out");
                out_["agreement"].push_back({{"work", w.name},
                                             {"type", type_text(w.type)},
                                             {"context", context},
                                             {"peer", at->who.name},
                                             {"difference", difference},
                                             {"agrees", agrees}});
            }
            at = agrees ? at + 1 : all.erase(at);
        }
    }

    cell new_cell(const work& w, const char* kind, const std::vector<running>& all, index context, index rows,
                  index logit_rows) {
        cell c;
        c.labels = {
            {"kind", kind}, {"work", w.name}, {"type", type_text(w.type)}, {"context", context}, {"rows", rows}};
        for (const running& r : all) {
            c.all.push_back({.name = r.who.name,
                             .seconds = {},
                             .attention = {},
                             .least = step_cost(w, context, rows, logit_rows, r.who.kv_bytes),
                             .peak = r.who.bf16_dots && peaks_.bf16_dot > 0 ? peaks_.bf16_dot : peaks_.fma,
                             .f32_peak = peaks_.fma});
        }
        return c;
    }

    struct turn {
        double seconds = 0;
        double attention = -1;  // share; negative: unknown
    };

    static turn take_turn(step_engine& engine, std::span<const token_id> tokens, index logit_rows, index context,
                          int calls) {
        std::vector<double> seconds;
        std::vector<double> shares;
        for (int call = 0; call <= calls; ++call) {  // the first comes back to speed after the others
            const double s = seconds_of([&] { engine.forward(tokens, logit_rows); });
            engine.crop(context);
            if (call > 0) {
                seconds.push_back(s);
                shares.push_back(engine.attention_seconds() / s);
            }
        }
        return {median(seconds), median(shares)};
    }

    /// One round of one cell: everyone's turn.
    void take_turns(cell& c, std::vector<running>& all, std::span<const token_id> tokens, index logit_rows,
                    index context, int calls) {
        std::vector<double> reads;
        std::vector<turn> turns;
        c.others.push_back(others_.undisturbed([&] {
            reads.clear();
            turns.clear();
            for (const running& r : all) {
                reads.push_back(probe_.bytes_per_second());
                turns.push_back(take_turn(*r.engine, tokens, logit_rows, context, calls));
            }
            reads.push_back(probe_.bytes_per_second());
        }));
        for (std::size_t i = 0; i < all.size(); ++i) {
            c.all[i].seconds.push_back(turns[i].seconds);
            if (turns[i].attention >= 0) {
                c.all[i].attention.push_back(turns[i].attention);
            }
        }
        c.bandwidth.push_back(median(reads));
    }

    void run_context(const work& w, const cached_rows& rows, std::vector<running>& all, index context,
                     const std::vector<index>& row_counts) {
        const index most = *std::max_element(row_counts.begin(), row_counts.end());
        for (running& r : all) {
            r.engine->open(context, (std::max)(most, index{16}), rows);
        }
        check_agreement(w, all, context);
        const std::vector<token_id> tokens = random_tokens(most, w.target.vocab_size, 11);
        std::vector<cell> cells;
        for (const index m : row_counts) {
            cells.push_back(new_cell(w, "step", all, context, m, m));
        }
        for (int round = 0; round < options_.rounds; ++round) {
            for (std::size_t i = 0; i < cells.size(); ++i) {
                const auto m = static_cast<std::size_t>(row_counts[i]);
                take_turns(cells[i], all, std::span(tokens).first(m), row_counts[i], context, options_.calls);
            }
        }
        for (std::size_t i = 0; i < cells.size(); ++i) {
            finish(cells[i], "context " + std::to_string(context) + ", rows " + std::to_string(row_counts[i]));
        }
    }

    void run_prefill(const work& w, const cached_rows& rows, std::vector<running>& all) {
        for (running& r : all) {
            r.engine->open(0, prefill_rows, rows);
        }
        const std::vector<token_id> tokens = random_tokens(prefill_rows, w.target.vocab_size, 13);
        cell c = new_cell(w, "prefill", all, 0, prefill_rows, 1);
        for (int round = 0; round < options_.rounds; ++round) {
            take_turns(c, all, tokens, 1, 0, 1);
        }
        finish(c, "prefill of " + std::to_string(prefill_rows));
    }

    void finish(const cell& c, const std::string& name) {
        std::string line = line_of("  " + name, c);
        if (!c.all.front().attention.empty()) {
            char text[64];
            std::snprintf(text, sizeof text, " | our attention %.0f %%", 100 * median(c.all.front().attention));
            line += text;
        }
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
        out_["cells"].push_back(c.json());
    }

    options options_;
    memory_probe probe_;
    neighbours others_;
    compute_peaks peaks_;
    nlohmann::ordered_json out_;
};

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-steps", [&] { return steps_program(parse(argc, argv)).run(); });
}
