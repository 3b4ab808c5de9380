// The lesson as text, 100 columns wide, the same bytes on every machine: fractions in the pencil cast, rounded decimals
// in the other.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "walkthrough/lesson.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// p / q with the smallest q up to `most` that x is, to within what a float can tell.
[[nodiscard]] std::optional<std::pair<index, index>> as_fraction(float x, index most);

/// A fraction where x is one, else decimals.
[[nodiscard]] std::string number(float x, bool on_paper, int decimals = 4);

/// The columns of a row that are shown, the ends of a long one; -1 stands for those left out.
[[nodiscard]] std::vector<index> shown_columns(index count);

/// `first` and the sentence, broken at blanks; further lines are indented by the width of `first`.
[[nodiscard]] std::string wrapped(const std::string& first, const std::string& sentence);

[[nodiscard]] std::string to_text(const lesson& notes);
[[nodiscard]] std::string to_text(const step& one, bool on_paper);
[[nodiscard]] std::string ledger_text(const lesson& notes);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
