#include "support/comparison.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace dflash::bench {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
    char text[160];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

}  // namespace

double relative_difference(std::span<const float> ours, std::span<const float> theirs) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        const double a = static_cast<double>(ours[i]);
        const double b = static_cast<double>(theirs[i]);
        difference += (a - b) * (a - b);
        size += a * a;
    }
    return std::sqrt(difference / size);
}

std::string milliseconds_text(const std::vector<double>& seconds) {
    const spread s = spread_of(seconds);
    return formatted("%.2f (%.2f .. %.2f)", s.median * 1e3, s.p10 * 1e3, s.p90 * 1e3);
}

std::string line_of(const std::string& name, const cell& c) {
    std::string line = formatted("%-34s", name.c_str());
    for (const measured& m : c.all) {
        const std::string time = milliseconds_text(m.seconds);
        line += formatted(" | %s %s ms, f %.2f", m.name.c_str(), time.c_str(), median(c.roofline(m)));
        if (&m != &c.all.front()) {
            line += formatted(", %.2f x ours", median(ratios(m.seconds, c.all.front().seconds)));
        }
    }
    line += formatted(" | read %.1f GB/s", median(c.bandwidth) * 1e-9);
    const double others = median(c.others);
    return others > 0.1 ? line + formatted(" | NOT QUIET: others used %.0f %%", 100 * others) : line;
}

nlohmann::ordered_json preamble(const std::string& program, int threads, const compute_peaks& peaks) {
    const machine m = describe_machine();
    return {{"program", program},
            {"machine",
             {{"processor", m.processor},
              {"processors", m.threads},
              {"avx2", m.avx2},
              {"avx512", m.avx512},
              {"avx512_bf16", m.avx512_bf16}}},
            {"threads", threads},
            {"peak_fma_flops", peaks.fma},
            {"peak_bf16_dot_flops", peaks.bf16_dot}};
}

void write_json(const std::string& path, const nlohmann::ordered_json& value) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) {
        std::filesystem::create_directories(folder);
    }
    std::ofstream file(path);
    file << value.dump(1) << '\n';
    file.close();
    if (!file) {
        raise<io_error>(path, ": cannot be written");
    }
}

}  // namespace dflash::bench
