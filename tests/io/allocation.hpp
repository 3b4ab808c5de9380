// The largest single request for memory, to show that a number in a file is never believed.
#pragma once

#include <cstddef>

namespace io_test {

/// Starts measuring anew.
void reset_largest_allocation() noexcept;

/// The largest number of bytes asked for at once since then.
[[nodiscard]] std::size_t largest_allocation() noexcept;

}  // namespace io_test
