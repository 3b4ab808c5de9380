// Working memory of a sampler: kept from call to call, left behind by copies.
#pragma once

#include <vector>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE

namespace detail {

/// A vector that a copy of its owner starts without: samplers are copied every round, their scratch memory need not be.
template <class T>
class scratch {
public:
    scratch() = default;
    scratch(const scratch& /*other*/) {}
    scratch(scratch&&) noexcept = default;
    scratch& operator=(const scratch& /*other*/) { return *this; }
    scratch& operator=(scratch&&) noexcept = default;
    ~scratch() = default;

    [[nodiscard]] std::vector<T>& get() noexcept { return values_; }

private:
    std::vector<T> values_;
};

}  // namespace detail

DFLASH_END_NAMESPACE
