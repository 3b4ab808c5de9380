#include "walkthrough/html.hpp"

#include <array>

#include "walkthrough/page_files.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

/// "<" as JSON may also write it, so that no text of the data looks like markup.
std::string without_markup(const std::string& json) {
    std::string out;
    for (const char c : json) {
        if (c == '<') {
            out += "\\u003c";
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace

std::string page_around(std::string_view title, const nlohmann::ordered_json& data) {
    using namespace page_files;
    const std::array<std::pair<std::string_view, std::string>, 4> parts = {{
        {"@title@", std::string(title)},
        {"@style@", std::string(page_css)},
        {"@data@", without_markup(data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))},
        {"@script@", joined(page_js, rounds_js, lesson_js, attention_js, run_js)},
    }};
    std::string out;
    std::string_view rest = page_html;
    for (const auto& [mark, text] : parts) {  // in the order of the shell
        const std::size_t at = rest.find(mark);
        if (at == std::string_view::npos) {
            raise<config_error>("page.html: has no ", mark, " where it should be");
        }
        out += rest.substr(0, at);
        out += text;
        rest.remove_prefix(at + mark.size());
    }
    return out += rest;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
