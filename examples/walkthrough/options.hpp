// The command line of dflash-walkthrough, and what each option does with the walk.
#pragma once

#include <functional>

#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// Parses the arguments, walks as often as they ask for, prints. Returns the exit status.
int run_walkthrough(int argc, const char* const* argv, const std::function<void(classroom&)>& walk);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
