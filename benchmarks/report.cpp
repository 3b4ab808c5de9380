// One table of ratios and one chart from what the comparing programs wrote.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "support/chart.hpp"
#include "support/comparison.hpp"
#include "support/options.hpp"

namespace {

using namespace dflash::bench;
using json = nlohmann::ordered_json;

/// Reads a file of the folder; null when it is not there.
json read(const std::filesystem::path& path) {
    std::ifstream file(path);
    return file ? json::parse(file) : json();
}

spread spread_in(const json& summary) {
    return {summary.at("median").get<double>(), summary.at("p10").get<double>(), summary.at("p90").get<double>()};
}

std::string number(double value, const char* format = "%.2f") {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string title_of(const json& c) {
    const std::string kind = c.at("kind");
    return kind == "linear" ? "one product" : c.at("work").get<std::string>() + ", " + c.at("type").get<std::string>();
}

std::string label_of(const json& c) {
    const std::string kind = c.at("kind");
    if (kind == "linear") {
        return c.at("type").get<std::string>() + ", rows " + c.at("rows").dump();
    }
    if (kind == "prefill") {
        return "prefill of " + c.at("rows").dump();
    }
    return "context " + c.at("context").dump() + ", rows " + c.at("rows").dump();
}

/// One row of the table: the name of a contender, or the best of those whose names begin alike ("eigen, ...").
struct entry {
    spread times_ours;
    double of_roofline = 0;
};

std::map<std::string, entry> entries_of(const json& c) {
    std::map<std::string, entry> out;
    const json& all = c.at("contenders");
    for (std::size_t i = 1; i < all.size(); ++i) {
        const std::string full = all[i].at("name");
        const std::string name = full.substr(0, full.find(','));
        const entry e = {spread_in(all[i].at("times_ours")), all[i].at("of_roofline").at("median").get<double>()};
        const auto at = out.find(name);
        if (at == out.end() || e.times_ours.median < at->second.times_ours.median) {
            out[name] = e;
        }
    }
    return out;
}

void print_cells(const json& file, const std::vector<std::string>& peers, std::vector<chart_group>& chart) {
    if (file.is_null() || !file.contains("cells")) {
        return;
    }
    std::string title;
    for (const json& c : file.at("cells")) {
        if (title_of(c) != title) {
            title = title_of(c);
            std::printf("\n%s\n\n| | ours, ms | GB/s read | f |", title.c_str());
            std::string rule = "|---|---|---|---|";
            for (const std::string& peer : peers) {
                std::printf(" %s | f |", peer.c_str());
                rule += "---|---|";
            }
            std::printf("\n%s\n", rule.c_str());
            chart.push_back({title, {}});
        }
        const json& ours = c.at("contenders")[0];
        const spread time = spread_in(ours.at("seconds"));
        std::printf("| %s | %s (%s .. %s) | %s | %s |", label_of(c).c_str(), number(time.median * 1e3).c_str(),
                    number(time.p10 * 1e3).c_str(), number(time.p90 * 1e3).c_str(),
                    number(c.at("bandwidth").at("median").get<double>() * 1e-9, "%.1f").c_str(),
                    number(ours.at("of_roofline").at("median").get<double>()).c_str());
        const std::map<std::string, entry> found = entries_of(c);
        chart_line line = {label_of(c), {}};
        for (const std::string& peer : peers) {
            const auto at = found.find(peer);
            if (at == found.end()) {
                std::printf(" - | - |");
                continue;
            }
            std::printf(" **%s** | %s |", number(at->second.times_ours.median).c_str(),
                        number(at->second.of_roofline).c_str());
            line.dots.push_back({peer, at->second.times_ours});
        }
        std::printf("\n");
        chart.back().lines.push_back(std::move(line));
    }
    for (const json& c : file.at("cells")) {
        const json& ours = c.at("contenders")[0];
        if (ours.contains("attention_share") && c.value("context", 0) >= 8192) {
            std::printf("\n%s, %s: attention takes %s of our step.\n", title_of(c).c_str(), label_of(c).c_str(),
                        number(ours.at("attention_share").at("median").get<double>()).c_str());
        }
    }
}

void print_speculative(const json& file) {
    if (file.is_null()) {
        return;
    }
    std::printf(
        "\nspeculative runs, REPLAYED acceptance (random weights, lengths from a list)\n\n"
        "| | type | prompt | mean length | serial step, ms | cycle, ms | break-even | times serial | roofline "
        "allows | f of the run |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (const json& r : file.at("runs")) {
        std::printf("| %s | %s | %s | %s | %s | %s | %s | **%s** | %s | %s |\n",
                    r.at("name").get<std::string>().c_str(), r.at("type").get<std::string>().c_str(),
                    r.at("prompt").dump().c_str(), number(r.at("mean_acceptance_length").get<double>()).c_str(),
                    number(1e3 * median(r.at("serial_step_seconds").get<std::vector<double>>())).c_str(),
                    number(1e3 * median(r.at("cycle_seconds").get<std::vector<double>>())).c_str(),
                    number(r.at("break_even_acceptance").get<double>()).c_str(),
                    number(r.at("times_serial_median").get<double>()).c_str(),
                    number(r.at("roofline_allows").get<double>()).c_str(),
                    number(r.at("of_roofline").get<double>()).c_str());
    }
    std::printf("\n| type | prompt | part | ms | times the serial step | f |\n|---|---|---|---|---|---|\n");
    for (const json& c : file.at("cells")) {
        for (const json& p : c.at("contenders")) {
            std::printf("| %s | %s | %s | %s | %s | %s |\n", c.at("type").get<std::string>().c_str(),
                        c.at("context").dump().c_str(), p.at("name").get<std::string>().c_str(),
                        number(1e3 * p.at("seconds").at("median").get<double>()).c_str(),
                        number(p.at("times_ours").at("median").get<double>()).c_str(),
                        number(p.at("of_roofline").at("median").get<double>()).c_str());
        }
    }
}

void print_invariance(const json& file) {
    if (file.is_null()) {
        return;
    }
    std::printf(
        "\nrows of blocks that are not the rows of single tokens\n\n"
        "| type | | block | rows | differ | name another token |\n|---|---|---|---|---|---|\n");
    for (const json& c : file.at("counts")) {
        std::printf("| %s | %s | %s | %s | %s | %s |\n", c.at("type").get<std::string>().c_str(),
                    c.at("name").get<std::string>().c_str(), c.at("block").dump().c_str(), c.at("rows").dump().c_str(),
                    c.at("differing").dump().c_str(), c.at("other_token").dump().c_str());
    }
}

void print_load(const json& file) {
    if (file.is_null()) {
        return;
    }
    const auto ms = [&](const char* key) {
        return number(1e3 * median(file.at(key).get<std::vector<double>>()), "%.0f");
    };
    std::printf("\nloading %s MB: %s ms; reading the file into memory: %s ms; most memory held: %s of the file\n",
                number(file.at("file_bytes").get<double>() * 1e-6, "%.0f").c_str(), ms("load_seconds").c_str(),
                ms("read_seconds").c_str(),
                number(file.at("peak_bytes").get<double>() / file.at("file_bytes").get<double>()).c_str());
}

/// The share of the processors that other programs used while the numbers were taken.
void say_how_quiet(const std::vector<const json*>& files) {
    std::vector<double> shares;
    for (const json* file : files) {
        for (const json& c : file->is_null() ? json::array() : file->value("cells", json::array())) {
            shares.push_back(c.at("used_by_others").at("median").get<double>());
        }
    }
    std::printf("Other programs used %s of the processors (median of the cells; the worst cell: %s).\n",
                number(median(shares)).c_str(), number(percentile(shares, 1.0)).c_str());
}

int run(const std::string& folder, const std::string& svg) {
    const std::filesystem::path root(folder);
    const json linear = read(root / "linear.json");
    const json steps = read(root / "steps.json");
    const json speculative = read(root / "speculative.json");
    const json invariance = read(root / "invariance.json");
    for (const json* file : {&steps, &linear, &speculative}) {
        if (!file->is_null()) {
            const json& m = file->at("machine");
            std::printf("%s, %s processors, %s threads used; FMA peak %s GFLOP/s, bf16 dot peak %s GFLOP/s\n",
                        m.at("processor").get<std::string>().c_str(), m.at("processors").dump().c_str(),
                        file->at("threads").dump().c_str(),
                        number(file->at("peak_fma_flops").get<double>() * 1e-9, "%.0f").c_str(),
                        number(file->at("peak_bf16_dot_flops").get<double>() * 1e-9, "%.0f").c_str());
            break;
        }
    }
    say_how_quiet({&linear, &steps, &speculative});
    std::printf("Peers: time over ours in the same round (above 1: slower than ours). f: share of the roofline.\n");
    std::vector<chart_group> chart;
    print_cells(linear, {"eigen", "openblas", "onednn"}, chart);
    print_cells(steps, {"llama.cpp", "torch"}, chart);
    print_speculative(speculative);
    print_invariance(invariance);
    print_load(read(root / "load.json"));
    for (const json* file : {&linear, &steps}) {
        for (const json& line : file->is_null() ? json::array() : file->value("missing", json::array())) {
            std::printf("\n%s\n", line.get<std::string>().c_str());
        }
    }
    if (!svg.empty()) {
        std::ofstream file(svg);
        file << draw_chart("time of peers over ours (logarithmic; right of 1: slower than ours)", chart);
        file.close();
        if (!file) {
            dflash::raise<dflash::io_error>(svg, ": cannot be written");
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return dflash::examples::run_program("bench-report", [&] {
        CLI::App app("Prints one table from linear, steps, speculative, invariance and load (.json).");
        std::string folder = "build/bench";
        std::string svg;
        app.add_option("--folder", folder, "where they lie; those that are missing are left out")
            ->capture_default_str();
        app.add_option("--svg", svg, "file for the chart");
        dflash::examples::parse_arguments(app, argc, argv);
        return run(folder, svg);
    });
}
