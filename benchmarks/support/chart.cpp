#include "support/chart.hpp"

#include <cmath>
#include <cstdio>

namespace dflash::bench {

namespace {

constexpr double left = 230;
constexpr double width = 560;
constexpr double line_height = 18;
constexpr double least = 0.25;
constexpr double most = 16;
constexpr const char* colors[] = {"#0b6e99", "#c2571a", "#6b8e23", "#8a4fa3", "#b08d00", "#666666"};

/// Where a ratio stands on the axis; what is outside stands at its end.
double x_of(double ratio) {
    const double kept = (std::min)((std::max)(ratio, least), most);
    return left + width * std::log2(kept / least) / std::log2(most / least);
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            default: out.push_back(c);
        }
    }
    return out;
}

class svg {
public:
    void text(double x, double y, const std::string& content, const std::string& attributes = "") {
        put("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes.c_str(), escaped(content).c_str());
    }
    void line(double x1, double y1, double x2, double y2, const std::string& attributes) {
        put("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, attributes.c_str());
    }
    void dot(double x, double y, const std::string& attributes) {
        put("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" %s/>\n", x, y, attributes.c_str());
    }

    [[nodiscard]] std::string done(double height) const {
        char head[400];
        std::snprintf(head, sizeof head,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
                      "font-size=\"12\" fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                      left + width + 30, height);
        return head + body_ + "</svg>\n";
    }

private:
    template <class... Values>
    void put(const char* format, Values... values) {
        char text[600];
        std::snprintf(text, sizeof text, format, values...);
        body_ += text;
    }

    std::string body_;
};

std::vector<std::string> names_in(const std::vector<chart_group>& groups) {
    std::vector<std::string> names;
    for (const chart_group& group : groups) {
        for (const chart_line& line : group.lines) {
            for (const chart_dot& dot : line.dots) {
                if (std::find(names.begin(), names.end(), dot.name) == names.end()) {
                    names.push_back(dot.name);
                }
            }
        }
    }
    return names;
}

std::string color_of(const std::vector<std::string>& names, const std::string& name) {
    const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    return colors[at % std::size(colors)];
}

}  // namespace

std::string draw_chart(const std::string& title, const std::vector<chart_group>& groups) {
    const std::vector<std::string> names = names_in(groups);
    svg out;
    double y = 24;
    out.text(12, y, title, "font-size=\"15\" font-weight=\"bold\"");
    y += 22;
    double x = 12;
    for (const std::string& name : names) {
        out.dot(x + 4, y - 4, "fill=\"" + color_of(names, name) + "\"");
        out.text(x + 13, y, name);
        x += 40 + 7 * static_cast<double>(name.size());
    }
    y += 12;
    const double top = y + 12;
    for (const chart_group& group : groups) {
        y += 2 * line_height;
        out.text(12, y, group.title, "font-weight=\"bold\"");
        for (const chart_line& line : group.lines) {
            y += line_height;
            out.text(left - 12, y, line.label, "text-anchor=\"end\"");
            out.line(left, y - 4, left + width, y - 4, "stroke=\"#eee\"");
            for (const chart_dot& dot : line.dots) {
                const std::string color = color_of(names, dot.name);
                out.line(x_of(dot.times_ours.p10), y - 4, x_of(dot.times_ours.p90), y - 4,
                         "stroke-width=\"2\" stroke=\"" + color + "\"");
                out.dot(x_of(dot.times_ours.median), y - 4, "fill=\"" + color + "\"");
            }
        }
    }
    for (double tick = least; tick <= most; tick *= 2) {
        char label[16];
        std::snprintf(label, sizeof label, "%g", tick);
        out.line(x_of(tick), top, x_of(tick), y + 6, tick == 1 ? "stroke=\"#222\"" : "stroke=\"#ccc\"");
        out.text(x_of(tick), y + 22, label, "text-anchor=\"middle\"");
    }
    return out.done(y + 36);
}

}  // namespace dflash::bench
