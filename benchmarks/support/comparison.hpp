// One cell of a comparison: contenders that did the same thing in turn, in every round, on the same machine.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/neighbours.hpp"
#include "support/probes.hpp"
#include "support/standard_work.hpp"
#include "support/statistics.hpp"

namespace dflash::bench {

/// What one contender did in a cell.
struct measured {
    std::string name;
    std::vector<double> seconds;    ///< of each round
    std::vector<double> attention;  ///< share of it, where known
    cost least;                     ///< what the work asks for, in the contender's element types
    double peak = 0;                ///< floating-point operations per second of the arithmetic its products may use
    double f32_peak = 0;            ///< of f32, in which attention is computed
};

struct cell {
    nlohmann::ordered_json labels;  ///< what was done: work, type, context, rows, ...
    std::vector<measured> all;      ///< ours first
    std::vector<double> bandwidth;  ///< bytes per second of the probe, for each round
    std::vector<double> others;     ///< share of the processors that other programs used, for each round

    /// The share of the roofline that a contender reaches, for each round: 1 is as fast as the machine allows.
    [[nodiscard]] std::vector<double> roofline(const measured& m) const {
        std::vector<double> out;
        for (std::size_t r = 0; r < m.seconds.size() && r < bandwidth.size(); ++r) {
            out.push_back(m.least.seconds(bandwidth[r], m.peak, m.f32_peak) / m.seconds[r]);
        }
        return out;
    }

    [[nodiscard]] nlohmann::ordered_json json() const {
        nlohmann::ordered_json out = labels;
        const auto summary = [](const std::vector<double>& values) {
            const spread s = spread_of(values);
            return nlohmann::ordered_json{{"median", s.median}, {"p10", s.p10}, {"p90", s.p90}, {"rounds", values}};
        };
        out["bandwidth"] = summary(bandwidth);
        out["used_by_others"] = summary(others);
        for (const measured& m : all) {
            nlohmann::ordered_json one = {{"name", m.name},
                                          {"seconds", summary(m.seconds)},
                                          {"bytes", m.least.bytes},
                                          {"flop", m.least.flop},
                                          {"attention_flop", m.least.attention_flop},
                                          {"of_roofline", summary(roofline(m))},
                                          {"times_ours", summary(ratios(m.seconds, all.front().seconds))}};
            if (!m.attention.empty()) {
                one["attention_share"] = summary(m.attention);
            }
            out["contenders"].push_back(std::move(one));
        }
        return out;
    }
};

/// Seconds of one call.
template <class Work>
[[nodiscard]] double seconds_of(Work&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One call to come back to speed after the others, then the median of `calls`.
template <class Work>
[[nodiscard]] double settled_seconds(int calls, Work&& work) {
    work();
    std::vector<double> seconds;
    for (int i = 0; i < calls; ++i) {
        seconds.push_back(seconds_of(work));
    }
    return median(std::move(seconds));
}

/// How far two results are apart: the root mean square of the difference, relative to that of the first.
[[nodiscard]] double relative_difference(std::span<const float> ours, std::span<const float> theirs);

/// "12.3 (11.9 .. 13.0)" in milliseconds.
[[nodiscard]] std::string milliseconds_text(const std::vector<double>& seconds);

/// One line for a cell: its name, then each contender's time, share of the roofline and time over ours.
[[nodiscard]] std::string line_of(const std::string& name, const cell& c);

/// The machine, the peaks and the settings, as every program writes them.
[[nodiscard]] nlohmann::ordered_json preamble(const std::string& program, int threads, const compute_peaks& peaks);

/// Errors: io_error.
void write_json(const std::string& path, const nlohmann::ordered_json& value);

}  // namespace dflash::bench
