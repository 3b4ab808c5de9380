// A chart of ratios as an SVG file: one line for each cell, one dot for each contender, on a logarithmic axis where 1
// is the library.
#pragma once

#include <string>
#include <vector>

#include "support/statistics.hpp"

namespace dflash::bench {

struct chart_dot {
    std::string name;  ///< of the contender; equal names have equal colours
    spread times_ours;
};

struct chart_line {
    std::string label;
    std::vector<chart_dot> dots;
};

struct chart_group {
    std::string title;
    std::vector<chart_line> lines;
};

/// The SVG text.
[[nodiscard]] std::string draw_chart(const std::string& title, const std::vector<chart_group>& groups);

}  // namespace dflash::bench
