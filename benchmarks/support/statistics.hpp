// Medians and percentiles of what rounds measured, and ratios within a round.
//
// The speed of memory drifts on machines that others use too. Numbers of one round saw the same machine, so contenders
// are compared by the median of their ratios round by round, never by the ratio of two medians.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dflash::bench {

/// The value below which a share p of the values lies, 0 <= p <= 1, interpolated; 0 without values.
[[nodiscard]] inline double percentile(std::vector<double> values, double p) {
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    const double at = p * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = (std::min)(low + 1, values.size() - 1);
    const double part = at - static_cast<double>(low);
    return values[low] + part * (values[high] - values[low]);
}

[[nodiscard]] inline double median(std::vector<double> values) {
    return percentile(std::move(values), 0.5);
}

/// Median, 10th and 90th percentile.
struct spread {
    double median = 0;
    double p10 = 0;
    double p90 = 0;
};

[[nodiscard]] inline spread spread_of(const std::vector<double>& values) {
    return {median(values), percentile(values, 0.1), percentile(values, 0.9)};
}

/// a[r] / b[r] for every round that both have.
[[nodiscard]] inline std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> out;
    for (std::size_t r = 0; r < (std::min)(a.size(), b.size()); ++r) {
        out.push_back(a[r] / b[r]);
    }
    return out;
}

}  // namespace dflash::bench
