// Room in a list before it is written to, so that what follows cannot raise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace detail {

/// Room for n entries more; grows as push_back does.
template <class T>
void make_room(std::vector<T>& list, index n) {
    const std::size_t needed = list.size() + static_cast<std::size_t>(n);
    if (needed > list.capacity()) {
        list.reserve((std::max)(needed, 2 * list.capacity()));
    }
}

}  // namespace detail

DFLASH_END_NAMESPACE
