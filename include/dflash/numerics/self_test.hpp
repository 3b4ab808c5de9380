// A run-time check that this thread's floating-point arithmetic is the one the results rely on.
//
// Flags are checked at compile time (config.hpp), but not every flag shows as a macro, and a foreign library built with
// fast-math can switch flush-to-zero on for a whole process. Some 40 microseconds (10 where the build has fma
// instructions); cpu::exact runs it once per process.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/attention.hpp>
#include <dflash/numerics/digest.hpp>
#include <dflash/numerics/dot.hpp>
#include <dflash/numerics/gumbel.hpp>
#include <dflash/numerics/log.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/numerics/softmax.hpp>
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

/// Subnormals, fused products, the width of results and the rounding mode. Empty, or what is wrong.
inline std::string_view self_test_rounding() {
    const float smallest = at_run_time(0x1p-149F);
    if (to_bits(at_run_time(smallest + smallest)) != 2U) {
        return "subnormal floats do not survive an addition (denormals-are-zero or flush-to-zero is on)";
    }
    if (to_bits(at_run_time(at_run_time(0x1p-126F) * at_run_time(0.5F))) != 0x00400000U) {
        return "subnormal floats do not survive a multiplication (flush-to-zero is on)";
    }
    if (to_bits(at_run_time(smallest * at_run_time(0x1p30F))) != to_bits(0x1p-119F)) {
        return "subnormal operands count as zero (denormals-are-zero is on)";
    }
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term survives only where the product is not rounded first.
    const float near_one = at_run_time(0x1.001p+0F);
    if (at_run_time(fma(near_one, near_one, at_run_time(-0x1.002p+0F))) != 0x1p-24F) {
        return "fma rounds twice (it is not fused)";
    }
    if (at_run_time(at_run_time(near_one * near_one) - at_run_time(0x1.002p+0F)) != 0.0F) {
        return "a product is kept wider than float";
    }
    // Ties to even in both directions, and the same for both signs: no directed rounding passes all four.
    const float big = at_run_time(0x1p24F);
    const float one = at_run_time(1.0F);
    const float three = at_run_time(3.0F);
    if (at_run_time(big + one) != 0x1p24F || at_run_time(big + three) != 0x1.000004p+24F ||
        at_run_time(-big - one) != -0x1p24F || at_run_time(-big - three) != -0x1.000004p+24F) {
        return "the rounding mode is not to nearest even";
    }
    return {};
}

/// What a compiler may change when it is told that results need not be exact. Empty, or what is wrong.
inline std::string_view self_test_rewriting() {
    const float minus_zero = at_run_time(-0.0F);
    if (to_bits(at_run_time(minus_zero + minus_zero)) != 0x80000000U ||
        to_bits(at_run_time(minus_zero * at_run_time(1.0F))) != 0x80000000U ||
        to_bits(at_run_time(0.0F + minus_zero)) != 0U) {  // a literal zero, which a compiler may leave out
        return "the sign of zero is lost (-fno-signed-zeros)";
    }
    const float nan = at_run_time(not_a_number);
    const float infinite = at_run_time(infinity);
    if (!(nan != nan) || nan == nan || nan >= 0.0F || nan <= 0.0F) {
        return "comparisons ignore NaN (-ffinite-math-only)";
    }
    if (!(infinite == infinity) || !(infinite > (std::numeric_limits<float>::max)()) || infinite - infinite == 0.0F) {
        return "comparisons ignore infinity (-ffinite-math-only)";
    }
    // One by one, two ones vanish into 2^24; taken together first, they do not.
    const float big = at_run_time(0x1p24F);
    const float one = at_run_time(1.0F);
    const float together = at_run_time(big + at_run_time(one + one));
    if (at_run_time((big + one) + one) != 0x1p24F || together != 0x1.000002p+24F) {
        return "a sum was reordered (-fassociative-math)";
    }
    return {};
}

inline constexpr index self_test_length = 300;  // past one chunk of every reduction

/// Mixed magnitudes and signs in [-4, 4), from an integer hash.
inline std::array<float, self_test_length> self_test_inputs() {
    std::array<float, self_test_length> x{};
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t hash = static_cast<std::uint32_t>(i + 1) * 2654435761U;
        x[i] = at_run_time(static_cast<float>(static_cast<std::int32_t>(hash)) * 0x1p-29F);
    }
    return x;
}

/// Zeros, NaN and infinities, and what lies at the edges of the functions.
inline std::array<float, 16> self_test_edges() {
    std::array<float, 16> x = {0.0F,  -0.0F, not_a_number, infinity, -infinity, 0x1p-149F, -0x1p-149F, 0x1p-126F,
                               -1.0F, -1.5F, 88.75F,       -87.5F,   0x1p31F,   0x1p127F,  -0x1p127F,  10.0F};
    for (float& value : x) {
        value = at_run_time(value);
    }
    return x;
}

inline std::uint64_t self_test_dot(const float* x) {
    digest result;
    const float tiny = at_run_time(0x1p-100F);
    const float minus = -tiny;  // tiny * minus rounds to -0: the chunk's sum is +0 all the same
    const std::array<float, 2> dots = {dot_chain(x, x + 1, self_test_length - 1), dot_chain(&tiny, &minus, 1)};
    result.add(dots);
    return result.value();
}

inline std::uint64_t self_test_norm(const float* x) {
    std::array<float, self_test_length> y{};
    rms_norm(x, x, 1e-6F, self_test_length, y.data());
    digest result;
    result.add(y);
    return result.value();
}

inline std::uint64_t self_test_softmax(const float* x) {
    std::array<float, 80> y{};
    const auto n = static_cast<index>(y.size());
    softmax(x, n, y.data());
    digest result;
    result.add(y);
    const std::array<float, 2> logs = {log_probability(x, n, 3), log_sum_exp(x, n)};
    result.add(logs);
    return result.value();
}

/// Two chunks of keys, a mask, a scale that is no power of two and keeps weights alike, and a chain that underflows.
inline std::uint64_t self_test_attention(const float* x) {
    constexpr index head_dim = 6;
    std::array<float, head_dim> y{};
    attend_row(
        x, attention_scale(16 * head_dim), head_dim, self_test_length, [x](index j) { return x + j % 290; },
        [x](index j) { return x + j % 280 + 7; }, [](index j) { return j % 8 == 3; }, y.data());
    digest result;
    result.add(y);
    const std::array<float, 2> keys = {0.0F, at_run_time(-60.0F)};
    const std::array<float, 2> values = {0.0F, at_run_time(-0x1p-100F)};
    const float one = at_run_time(1.0F);
    attend_row(
        &one, 1.0F, 1, 2, [&keys](index j) { return keys.data() + j; },
        [&values](index j) { return values.data() + j; }, [](index) { return true; }, y.data());
    result.add(std::span<const float>(y.data(), 1));
    return result.value();
}

/// Inverse frequencies of every kind, and the f64 functions that tables are made of.
inline std::uint64_t self_test_rope(const float* x) {
    constexpr index head_dim = 16;
    digest result;
    rope_parameters p;
    p.theta = static_cast<double>(at_run_time(10000.0F));
    p.factor = static_cast<double>(at_run_time(3.0F));
    p.original_max_position = 512.0;
    for (const auto kind :
         {rope_scaling_kind::none, rope_scaling_kind::linear, rope_scaling_kind::llama3, rope_scaling_kind::yarn}) {
        p.kind = kind;
        std::array<float, head_dim / 2> frequencies{};
        rope_inverse_frequencies(p, head_dim, frequencies.data());
        result.add(frequencies);
        result.add(to_bits(static_cast<double>(rope_attention_factor(p))));
    }
    for (index i = 0; i < 16; ++i) {
        result.add(to_bits(exp2(static_cast<double>(x[i]))));
        result.add(to_bits(log2(static_cast<double>(x[i] + 5.0F))));
        const sine_cosine both = sincos(static_cast<double>(x[i] * 256.0F));
        result.add(to_bits(both.sin));
        result.add(to_bits(both.cos));
    }
    return result.value();
}

template <class Function>
std::uint64_t self_test_function(const float* x, Function function) {
    digest result;
    std::array<float, 32> y{};
    for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = function(x[i]);
    }
    result.add(y);
    const std::array<float, 16> edges = self_test_edges();
    for (std::size_t i = 0; i < edges.size(); ++i) {
        y[i] = function(edges[i]);
    }
    result.add(std::span<const float>(y.data(), edges.size()));
    return result.value();
}

/// The kernels of numerics on fixed inputs. Empty, or which one is wrong.
inline std::string_view self_test_kernels() {
    const std::array<float, self_test_length> inputs = self_test_inputs();
    const float* x = inputs.data();
    const float three = at_run_time(3.0F);
    constexpr std::uint64_t thirds = 0xDE83EABA5DCCFEE4U;
    if (self_test_function(x, [three](float v) { return v / three; }) != thirds ||
        self_test_function(x, [](float v) { return v / 3.0F; }) != thirds) {
        return "a quotient is not the nearest float (-freciprocal-math)";
    }
    if (self_test_dot(x) != 0xD16EBEFA623EA954U) {
        return "dot_chain gives other bits than it should";
    }
    if (self_test_norm(x) != 0xC34961CB965EF41FU) {
        return "rms_norm gives other bits than it should";
    }
    if (self_test_function(x, [](float v) { return exp(v); }) != 0x9653B9318262393DU) {
        return "exp gives other bits than it should";
    }
    if (self_test_function(x, [](float v) { return log(v * v); }) != 0x73D41EBBEDCF6C17U) {
        return "log gives other bits than it should";
    }
    if (self_test_function(x, [](float v) { return log1p(v); }) != 0xFC0925423BECCD17U ||
        self_test_function(x, [](float v) { return gumbel(to_bits(v) >> 7); }) != 0x53EA1E2A42F49F21U) {
        return "log1p or gumbel gives other bits than it should";
    }
    if (self_test_function(x, [](float v) { return tanh(v); }) != 0x2B67E79964E41CCDU) {
        return "tanh gives other bits than it should";
    }
    if (self_test_function(x, [](float v) { return silu(v); }) != 0x178D602929F052A6U) {
        return "silu gives other bits than it should";
    }
    if (self_test_softmax(x) != 0xB6D29D1752533CFDU) {
        return "softmax gives other bits than it should";
    }
    if (self_test_attention(x) != 0x449C906C8EC477D9U) {
        return "attend_row gives other bits than it should";
    }
    if (self_test_rope(x) != 0x8F3BE1548F073139U) {
        return "the tables of rope have other bits than they should";
    }
    return {};
}

}  // namespace detail

/// Whether subnormals survive, fma is fused, rounding is to nearest even, zero keeps its sign, NaN and infinity compare
/// as they should, sums keep their order, quotients are rounded once, and the kernels of numerics give their known
/// digests.
[[nodiscard]] inline self_test_result arithmetic_self_test() {
    for (const auto part : {detail::self_test_rounding, detail::self_test_rewriting, detail::self_test_kernels}) {
        const std::string_view what = part();
        if (!what.empty()) {
            return {false, what};
        }
    }
    return {true, {}};
}

}  // namespace numerics

DFLASH_END_NAMESPACE
