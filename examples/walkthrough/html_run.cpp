// The data of a run's page: the trace, and beside it
//   "texts" { "mean_acceptance_length", "tokens_per_second", "seconds": { part: text }, "lengths": [[length, rounds]] }
#include <cstdio>
#include <map>

#include "walkthrough/html.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

using nlohmann::ordered_json;

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

}  // namespace

std::string to_html(const ordered_json& trace) {
    const ordered_json& statistics = trace.at("statistics");
    ordered_json texts;
    texts["mean_acceptance_length"] = fixed(statistics.at("mean_acceptance_length").get<double>(), 2);
    const double total = statistics.at("seconds").at("total").get<double>();
    texts["tokens_per_second"] = fixed(total > 0 ? statistics.at("tokens").get<double>() / total : 0.0, 0);
    for (const auto& [part, value] : statistics.at("seconds").items()) {
        texts["seconds"][part] = fixed(value.get<double>(), 4);
    }
    std::map<std::size_t, index> lengths;
    const ordered_json& rounds = trace.at("rounds");
    for (std::size_t r = 1; r < rounds.size(); ++r) {
        ++lengths[rounds[r].at("committed").size()];
    }
    texts["lengths"] = ordered_json::array();
    for (const auto& [length, count] : lengths) {
        texts["lengths"].push_back({length, count});
    }
    ordered_json data = trace;
    data["texts"] = std::move(texts);
    return page_around("A run with DFlash", data);
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
