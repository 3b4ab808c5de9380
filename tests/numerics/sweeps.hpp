// The four functions of f32 with their domains and the libm functions that judge them.
#pragma once

#include <dflash/numerics/exp.hpp>
#include <dflash/numerics/log.hpp>
#include <dflash/numerics/tanh.hpp>

#include "numerics/support.hpp"

namespace numerics_test {

inline constexpr float largest = (std::numeric_limits<float>::max)();

/// Where the result is a normal float; above and below, exp is +inf and +0 by definition.
inline sweep_result sweep_exp(std::int64_t stride) {
    return sweep([](float x) { return dflash::numerics::exp(x); }, [](double x) { return std::exp(x); },
                 dflash::numerics::exp_constants::low, dflash::numerics::exp_constants::high, stride);
}

inline sweep_result sweep_log(std::int64_t stride) {
    return sweep([](float x) { return dflash::numerics::log(x); }, [](double x) { return std::log(x); }, 0x1p-149F,
                 largest, stride);
}

inline sweep_result sweep_log1p(std::int64_t stride) {
    return sweep([](float x) { return dflash::numerics::log1p(x); }, [](double x) { return std::log1p(x); }, -1.0F,
                 largest, stride);
}

inline sweep_result sweep_tanh(std::int64_t stride) {
    return sweep([](float x) { return dflash::numerics::tanh(x); }, [](double x) { return std::tanh(x); }, -largest,
                 largest, stride);
}

}  // namespace numerics_test
