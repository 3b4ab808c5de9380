// Lessons and runs as one HTML page each: a single file that asks nothing of any network. What the page looks like and
// how it draws is in page/; here are the data it draws, with every number that is shown written as a text.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "walkthrough/lesson.hpp"
#include "walkthrough/mistakes.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// The page of a lesson. With a mistake, `made` says which and `right` is the lesson without it: numbers that differ
/// are marked. Both are null without one.
[[nodiscard]] std::string to_html(const lesson& notes, const mistake_entry* made, const lesson* right);

/// The page of a run; `trace` as read_trace returns it.
[[nodiscard]] std::string to_html(const nlohmann::ordered_json& trace);

/// The shell of page/ around data, in which nothing can end the script element that holds it.
[[nodiscard]] std::string page_around(std::string_view title, const nlohmann::ordered_json& data);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
