// Do blocks give the rows that single tokens give? For every contender: greedy text token by token, then the same
// tokens again in blocks; how many logit rows differ in any bit, and how many of them name another token.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "peers/peers.hpp"
#include "support/comparison.hpp"
#include "support/options.hpp"
#include "support/step_engine.hpp"

namespace {

using namespace dflash::bench;
using dflash::size_of;
using dflash::token_id;
using index = dflash::index;

constexpr index prompt_tokens = 64;

struct options : common_options {
    std::vector<std::string> types = {"f32", "bf16"};
    std::vector<index> rows = {2, 4, 8, 16};
    index tokens = 240;
    int seeds = 5;
};

options parse(int argc, const char* const* argv) {
    options o;
    CLI::App app("Counts logit rows that differ between blocks and single tokens, on the standard work.");
    app.add_option("--threads", o.threads, "threads of every contender")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(1, 1024));
    app.add_option("--peers", o.peers, "peers, or none")->delimiter(',')->capture_default_str();
    app.add_option("--folder", o.folder, "where models for peers are written")->capture_default_str();
    app.add_option("--json", o.json, "file for all numbers");
    app.add_option("--types", o.types, "f32, bf16")->delimiter(',')->capture_default_str();
    app.add_option("--rows", o.rows, "block lengths")
        ->transform(dflash::examples::whole_number(1, 512))
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--tokens", o.tokens, "tokens of a text")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(1, 4096));
    app.add_option("--seeds", o.seeds, "texts, each after a prompt of its own")
        ->capture_default_str()
        ->transform(dflash::examples::whole_number(1, 1000));
    dflash::examples::parse_arguments(app, argc, argv);
    return o;
}

token_id likeliest(std::span<const float> row) {
    return static_cast<token_id>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// A greedy text, token by token, with the row that gave each token.
struct serial_text {
    std::vector<token_id> tokens;  ///< the anchor first
    std::vector<std::vector<float>> rows;
};

serial_text write_text(step_engine& engine, std::span<const token_id> prompt, index tokens) {
    serial_text text;
    engine.crop(0);
    engine.forward(prompt, 1);
    text.tokens.push_back(likeliest(engine.logits()));
    for (index i = 0; i < tokens; ++i) {
        const token_id last = text.tokens.back();
        engine.forward({&last, 1}, 1);
        const std::span<const float> row = engine.logits();
        text.rows.emplace_back(row.begin(), row.end());
        text.tokens.push_back(likeliest(row));
    }
    return text;
}

struct counts {
    index rows = 0;
    index differing = 0;
    index other_token = 0;
};

void compare_blocks(step_engine& engine, index prompt, const serial_text& text, index block, counts& found) {
    engine.crop(prompt);
    const index total = size_of(std::span(text.rows));
    for (index first = 0; first < total; first += block) {
        const index m = (std::min)(block, total - first);
        engine.forward(std::span(text.tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(m)), m);
        const std::span<const float> logits = engine.logits();
        const std::size_t width = logits.size() / static_cast<std::size_t>(m);
        for (index i = 0; i < m; ++i) {
            const std::span<const float> row = logits.subspan(static_cast<std::size_t>(i) * width, width);
            const std::vector<float>& serial = text.rows[static_cast<std::size_t>(first + i)];
            ++found.rows;
            found.differing += std::memcmp(row.data(), serial.data(), row.size_bytes()) != 0 ? 1 : 0;
            found.other_token += likeliest(row) != likeliest(serial) ? 1 : 0;
        }
    }
}

int run(const options& o) {
    set_peer_folder(o.folder);
    nlohmann::ordered_json out = preamble("bench-invariance", o.threads, {});
    std::printf("standard work: %td greedy tokens from each of %d prompts, token by token and again in blocks\n",
                o.tokens, o.seeds);
    for (const std::string& type : o.types) {
        const std::unique_ptr<work> w = make_work("standard", type_named(type));
        std::vector<std::string> missing;
        for (const contender& c : step_contenders(w->type, wanted_peers(o), missing)) {
            const std::unique_ptr<step_engine> engine = c.make(*w, o.threads);
            engine->open(0, prompt_tokens + o.tokens + 1, cached_rows(w->target));
            std::vector<counts> found(o.rows.size());
            for (int seed = 0; seed < o.seeds; ++seed) {
                const std::vector<token_id> prompt =
                    random_tokens(prompt_tokens, w->target.vocab_size, static_cast<std::uint64_t>(100 + seed));
                const serial_text text = write_text(*engine, prompt, o.tokens);
                for (std::size_t i = 0; i < o.rows.size(); ++i) {
                    compare_blocks(*engine, prompt_tokens, text, o.rows[i], found[i]);
                }
            }
            for (std::size_t i = 0; i < o.rows.size(); ++i) {
                std::printf("  %-4s %-10s blocks of %2td: %4td of %td rows differ, %td name another token\n",
                            type.c_str(), c.name.c_str(), o.rows[i], found[i].differing, found[i].rows,
                            found[i].other_token);
                out["counts"].push_back({{"type", type},
                                         {"name", c.name},
                                         {"block", o.rows[i]},
                                         {"rows", found[i].rows},
                                         {"differing", found[i].differing},
                                         {"other_token", found[i].other_token}});
            }
            std::fflush(stdout);
        }
        for (const std::string& line : missing) {
            std::printf("%s\n", line.c_str());
        }
    }
    if (!o.json.empty()) {
        write_json(o.json, out);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-invariance", [&] { return run(parse(argc, argv)); });
}
