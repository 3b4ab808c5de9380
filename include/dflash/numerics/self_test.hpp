// A run-time check that this thread's floating-point arithmetic is the one the results rely on.
//
// Flags are checked at compile time (config.hpp), but not every flag shows as a macro, and a foreign library built with
// fast-math can switch flush-to-zero on for a whole process. A few microseconds; run it once per decoder and thread.
#pragma once

#include <array>
#include <string_view>

#include <dflash/numerics/digest.hpp>
#include <dflash/numerics/dot.hpp>
#include <dflash/numerics/log.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/tanh.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// What the self-test found: `what` names the first check that failed, and is empty when all passed.
struct self_test_result {
    bool ok;
    std::string_view what;
};

namespace detail {

/// Keeps the compiler from computing with a value before the program runs, under the compiler's own arithmetic.
inline float at_run_time(float x) {
    const volatile float hidden = x;
    return hidden;
}

/// Mixed magnitudes and signs in [-4, 4), from an integer hash.
inline float self_test_input(index i) {
    const auto hash = static_cast<std::uint32_t>(i + 1) * 2654435761U;
    return at_run_time(static_cast<float>(static_cast<std::int32_t>(hash)) * 0x1p-29F);
}

inline constexpr index self_test_length = 300;  // past one chunk of either reduction

inline std::uint64_t self_test_dot(const float* x) {
    digest result;
    const std::array<float, 1> dot = {dot_chain(x, x + 1, self_test_length - 1)};
    result.add(dot);
    return result.value();
}

inline std::uint64_t self_test_norm(const float* x) {
    std::array<float, self_test_length> y{};
    rms_norm(x, x, 1e-6F, self_test_length, y.data());
    digest result;
    result.add(y);
    return result.value();
}

template <class Function>
std::uint64_t self_test_function(const float* x, Function function) {
    std::array<float, 32> y{};
    for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = function(x[i]);
    }
    digest result;
    result.add(y);
    return result.value();
}

inline constexpr std::uint64_t self_test_dot_digest = 0x4CDEEFAD27FC0E14U;
inline constexpr std::uint64_t self_test_norm_digest = 0xC34961CB965EF41FU;
inline constexpr std::uint64_t self_test_exp_digest = 0x9A7FE98AC6A9E0B9U;
inline constexpr std::uint64_t self_test_log_digest = 0xC927FC81AE0D5273U;
inline constexpr std::uint64_t self_test_tanh_digest = 0x6AB56E69B4F5654BU;

}  // namespace detail

/// Whether subnormals survive, fma is fused, zero keeps its sign, sums keep their order, rounding is to nearest even,
/// and the kernels of numerics give their known digests.
[[nodiscard]] inline self_test_result arithmetic_self_test() {
    using detail::at_run_time;

    const float smallest = at_run_time(0x1p-149F);
    if (to_bits(at_run_time(smallest + smallest)) != 2U) {
        return {false, "subnormal floats do not survive an addition (denormals-are-zero or flush-to-zero is on)"};
    }
    if (to_bits(at_run_time(at_run_time(0x1p-126F) * at_run_time(0.5F))) != 0x00400000U) {
        return {false, "subnormal floats do not survive a multiplication (flush-to-zero is on)"};
    }
    if (to_bits(at_run_time(smallest * at_run_time(0x1p30F))) != to_bits(0x1p-119F)) {
        return {false, "subnormal operands count as zero (denormals-are-zero is on)"};
    }
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term survives only where the product is not rounded first.
    const float near_one = at_run_time(0x1.001p+0F);
    if (at_run_time(fma(near_one, near_one, at_run_time(-0x1.002p+0F))) != 0x1p-24F) {
        return {false, "fma rounds twice (it is not fused)"};
    }
    if (at_run_time(at_run_time(near_one * near_one) - at_run_time(0x1.002p+0F)) != 0.0F) {
        return {false, "a product is kept wider than float"};
    }
    if (to_bits(at_run_time(at_run_time(-0.0F) + at_run_time(-0.0F))) != 0x80000000U ||
        to_bits(at_run_time(at_run_time(-0.0F) * at_run_time(1.0F))) != 0x80000000U) {
        return {false, "the sign of zero is lost"};
    }
    const float big = at_run_time(0x1p24F);
    const float one = at_run_time(1.0F);
    // Ties to even in both directions, and the same for both signs: no directed rounding passes all four.
    const float three = at_run_time(3.0F);
    if (at_run_time(big + one) != 0x1p24F || at_run_time(big + three) != 0x1.000004p+24F ||
        at_run_time(-big - one) != -0x1p24F || at_run_time(-big - three) != -0x1.000004p+24F) {
        return {false, "the rounding mode is not to nearest even"};
    }
    // One by one, two ones vanish into 2^24; taken together first, they do not.
    const float together = at_run_time(big + at_run_time(one + one));
    if (at_run_time((big + one) + one) != 0x1p24F || together != 0x1.000002p+24F) {
        return {false, "a sum was reordered"};
    }

    std::array<float, detail::self_test_length> x{};
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = detail::self_test_input(static_cast<index>(i));
    }
    if (detail::self_test_dot(x.data()) != detail::self_test_dot_digest) {
        return {false, "dot_chain gives other bits than it should"};
    }
    if (detail::self_test_norm(x.data()) != detail::self_test_norm_digest) {
        return {false, "rms_norm gives other bits than it should"};
    }
    if (detail::self_test_function(x.data(), [](float v) { return exp(v); }) != detail::self_test_exp_digest) {
        return {false, "exp gives other bits than it should"};
    }
    if (detail::self_test_function(x.data(), [](float v) { return log(v * v); }) != detail::self_test_log_digest) {
        return {false, "log gives other bits than it should"};
    }
    if (detail::self_test_function(x.data(), [](float v) { return tanh(v); }) != detail::self_test_tanh_digest) {
        return {false, "tanh gives other bits than it should"};
    }
    return {true, {}};
}

}  // namespace numerics

DFLASH_END_NAMESPACE
