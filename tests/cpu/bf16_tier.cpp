// The bf16 tier of linear: rounding, packing, and products on every instruction set, against numerics bit for bit; the
// check of the machine's dot instruction, and what happens where it fails.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include <dflash/cpu/dot_check.hpp>
#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/linear.hpp>

#include "support.hpp"

namespace cpu_tests {

using dflash::activation_type;
using dflash::bf16;
using dflash::dtype;
using dflash::cpu::exact;
using dflash::cpu::exact_options;
using dflash::cpu::isa;
using dflash::cpu::detail::dot_chain_step;
using dflash::cpu::detail::dot_is_chain;
namespace numerics = dflash::numerics;

namespace {

exact tier(isa set, int threads) {
    return exact(exact_options{.threads = threads, .force = set, .activation = activation_type::bf16});
}

/// What operands are drawn from, each kind against another shortcut.
enum class range { plain, cancelling, wide, around_the_bound, subnormal, huge, anything };
constexpr range ranges[] = {range::plain,     range::cancelling, range::wide,    range::around_the_bound,
                            range::subnormal, range::huge,       range::anything};

float draw_operand(noise& random, range kind) {
    switch (kind) {
        case range::plain: return draw(random, content::plain);
        case range::cancelling: return draw(random, content::cancelling);
        case range::wide: return draw(random, content::wide);
        case range::around_the_bound: {
            // 2^-40 in steps finer than bf16 has, with some ones, so that the tiny ones are not all there is.
            const std::uint32_t near = 0x2B800000U + (random.word() & 0x3FFFFU) - 0x20000U;
            const float size = random.below(4) == 0 ? 1.0F : numerics::from_bits(near);
            return random.below(2) == 0 ? size : -size;
        }
        case range::subnormal: return random.below(8) == 0 ? 0x1p100F : draw(random, content::subnormal);
        case range::huge: return std::ldexp(random.unit(), 128 - static_cast<int>(random.below(130)));
        case range::anything: break;
    }
    // Mostly ordinary numbers: a single NaN or infinity decides a whole sum.
    constexpr std::uint32_t special[] = {0x00000000U, 0x80000000U, 0x7F800000U, 0xFF800000U, 0x7F800001U, 0x7FC00000U,
                                         0xFFFFFFFFU, 0x7F7FFFFFU, 0xFF7FFFFFU, 0x00000001U, 0x2B7FFFFFU, 0x2B7F8000U};
    return random.below(60) == 0 ? numerics::from_bits(special[random.below(12)]) : random.unit();
}

struct problem {
    stored w;
    matrix x;

    problem(index rows, index k, index n, range kind, std::uint64_t seed)
        : w(dtype::bf16, n, k), x(rows, k, seed % 3 == 0 ? 5 : 0, static_cast<index>(seed % 4)) {
        noise random(seed);
        for (index i = 0; i < n * k; ++i) {
            w.set(i, draw_operand(random, kind));
        }
        for (index r = 0; r < rows; ++r) {
            for (index c = 0; c < k; ++c) {
                x.row(r)[c] = draw_operand(random, kind);
            }
        }
    }
    [[nodiscard]] std::vector<bf16> weights() const {
        std::vector<bf16> out;
        for (const float value : w.widened()) {
            out.push_back(numerics::to_bf16(value));
        }
        return out;
    }
};

/// y = x w^T by the scalar specification of the tier.
matrix expected(const problem& p, const float* bias, index n) {
    matrix y(p.x.rows(), n);
    const std::vector<bf16> w = p.weights();
    for (index r = 0; r < p.x.rows(); ++r) {
        numerics::linear_bf16(w.data(), bias, p.x.row(r), p.x.cols(), n, y.row(r));
    }
    return y;
}

matrix product(const exact& ops, const stored& w, const matrix& x, index n) {
    const std::array parts = {w.view()};
    const auto packed = ops.pack(parts);
    matrix y(x.rows(), n, 3, 1);
    ops.linear(x.view(), packed, y.view());
    CHECK(y.padding_intact());
    return y;
}

}  // namespace

TEST_CASE("bf16 tier: rows are rounded as the specification says") {
    // All upper halves, with lower halves on both sides of every rounding decision.
    std::vector<float> x;
    for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
        for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
            x.push_back(numerics::from_bits(upper << 16 | lower));
        }
    }
    for (const std::size_t length : {x.size(), x.size() - 1, x.size() - 7, std::size_t{1}, std::size_t{6}}) {
        const auto n = static_cast<index>(length);
        std::vector<float> rounded(length);
        std::vector<std::uint32_t> words((length + 1) / 2);
        dflash::cpu::round_row(x.data(), n, rounded.data());
        dflash::cpu::round_row(x.data(), n, words.data());
        index wrong = 0;
        for (std::size_t i = 0; i < length; ++i) {
            const std::uint32_t bits = numerics::bf16_operand(x[i]).bits;
            wrong += numerics::to_bits(rounded[i]) != bits << 16 ? 1 : 0;
            wrong += (i % 2 == 0 ? words[i / 2] >> 16 : words[i / 2] & 0xFFFFU) != bits ? 1 : 0;
        }
        CHECK(wrong == 0);
        CHECK((length % 2 == 0 || (words.back() & 0xFFFFU) == 0U));
    }
}

TEST_CASE("bf16 tier: linear equals the specification for odd sizes, every range, every instruction set") {
    constexpr index widths[] = {1, 2, 3, 31, 64, 127, 128, 129, 130, 255, 256, 257, 385, 600};
    constexpr index heights[] = {1, 15, 16, 17, 33, 70};
    std::uint64_t seed = 0;
    for (const index k : widths) {
        for (const index n : heights) {
            for (const range kind : ranges) {
                ++seed;
                const index rows = static_cast<index>(seed % 33) + 1;
                const problem p(rows, k, n, kind, seed);
                const matrix right = expected(p, nullptr, n);
                for (const isa set : instruction_sets()) {
                    CAPTURE(k);
                    CAPTURE(n);
                    CAPTURE(rows);
                    CAPTURE(static_cast<int>(kind));
                    CAPTURE(label(set, 1));
                    REQUIRE(differing(product(tier(set, 1), p.w, p.x, n), right) == 0);
                }
            }
        }
    }
}

TEST_CASE("bf16 tier: row r of a batched product is the one-row product, for every row count and thread count") {
    const index k = 391;
    const index n = 16 * 23 + 5;
    const problem p(70, k, n, range::cancelling, 7);
    const matrix right = expected(p, nullptr, n);
    for (const isa set : instruction_sets()) {
        auto ops = tier(set, 1);
        const std::array parts = {p.w.view()};
        const auto packed = ops.pack(parts);
        for (index m = 1; m <= 70; m += m < 33 ? 1 : 37) {
            ops.set_threads(static_cast<int>(m % 4) + 1);
            matrix y(m, n);
            ops.linear(matrix_view<const float>(p.x.view()).rows(70 - m, m), packed, y.view());
            index wrong = 0;
            for (index r = 0; r < m; ++r) {
                wrong += differing(y.row(r), right.row(70 - m + r), n);
            }
            CAPTURE(m);
            CAPTURE(label(set, ops.threads()));
            REQUIRE(wrong == 0);
        }
    }
}

TEST_CASE("bf16 tier: biases, stacked parts, and weights of other types") {
    noise random(5);
    stored a(dtype::bf16, 5, 37);
    stored b(dtype::bf16, 18, 37);
    stored f32(dtype::f32, 9, 37);
    stored f16(dtype::f16, 9, 37);
    stored bias_a(dtype::f32, 1, 5);
    stored bias_b(dtype::bf16, 1, 18);
    for (stored* t : {&a, &b, &f32, &f16, &bias_a, &bias_b}) {
        t->fill(random, content::plain);
    }
    a.set(3, 0x1p-41F);       // becomes zero
    bias_b.set(2, 0x1p-60F);  // does not: biases are added, not multiplied
    matrix x(3, 37);
    x.fill(random, content::plain);
    std::vector<bf16> w;
    for (const stored* t : {&a, &b}) {
        for (const float value : t->widened()) {
            w.push_back(numerics::to_bf16(value));
        }
    }
    std::vector<float> bias = bias_a.widened();
    for (const float value : bias_b.widened()) {
        bias.push_back(value);
    }
    matrix right(3, 23);
    for (index r = 0; r < 3; ++r) {
        numerics::linear_bf16(w.data(), bias.data(), x.row(r), 37, 23, right.row(r));
    }
    for (const isa set : instruction_sets()) {
        CAPTURE(label(set, 2));
        const auto ops = tier(set, 2);
        const std::array parts = {a.view(), b.view()};
        const std::array biases = {bias_a.view(), bias_b.view()};
        const auto packed = ops.pack(parts, biases);
        CHECK(packed.activation() == activation_type::bf16);
        matrix y(3, 23);
        ops.linear(x.view(), packed, y.view());
        CHECK(differing(y, right) == 0);

        for (const stored* other : {&f32, &f16}) {
            const std::array one = {other->view()};
            CHECK(ops.pack(one).activation() == activation_type::f32);
            CHECK(differing(product(ops, *other, x, 9), product(backend(set, 1), *other, x, 9)) == 0);
        }
        const std::array mixed = {a.view(), f16.view()};
        CHECK(ops.pack(mixed).activation() == activation_type::f32);  // widened to f32 weights
    }
}

TEST_CASE("bf16 tier: a table is looked up as stored, and multiplied without its tiny elements") {
    for (const index k : {index{1}, index{2}, index{33}, index{128}}) {
        noise random(static_cast<std::uint64_t>(k));
        stored a(dtype::bf16, 19, k);
        stored b(dtype::bf16, 16, k);
        for (stored* table : {&a, &b}) {
            for (index i = 0; i < (table == &a ? 19 : 16) * k; ++i) {
                constexpr float values[] = {1.0F, -0.0F, 0.0F, 0x1p-40F, -0x1.FEp-41F, 0x1p-133F, -0x1p-100F};
                table->set(i, values[random.below(7)]);
            }
        }
        std::vector<float> wide = a.widened();
        for (const float value : b.widened()) {
            wide.push_back(value);
        }
        for (const int threads : {1, 3}) {
            const auto ops = tier(isa::automatic, threads);
            const std::array parts = {a.view(), b.view()};
            const auto packed = ops.pack(parts);
            std::vector<dflash::token_id> ids;
            for (dflash::token_id id = 34; id >= 0; --id) {
                ids.push_back(id);
            }
            matrix rows(35, k);
            ops.gather(packed, ids, rows.view());
            index wrong = 0;
            for (index i = 0; i < 35; ++i) {
                for (index c = 0; c < k; ++c) {
                    wrong += numerics::to_bits(rows.row(i)[c]) !=
                                     numerics::to_bits(wide[static_cast<std::size_t>((34 - i) * k + c)])
                                 ? 1
                                 : 0;
                }
            }
            CHECK(wrong == 0);

            // 2^60 would lift them into sight.
            matrix x(1, k);
            std::fill_n(x.row(0), k, 0x1p60F);
            matrix y(1, 35);
            ops.linear(x.view(), packed, y.view());
            for (index o = 0; o < 35; ++o) {
                float sum = 0.0F;
                for (index c = 0; c < k; ++c) {
                    const float w = wide[static_cast<std::size_t>(o * k + c)];
                    sum += std::abs(w) >= 0x1p-40F ? w * 0x1p60F : 0.0F;
                }
                CHECK(y.row(0)[o] == sum);
            }
        }
    }
}

TEST_CASE("bf16 tier: the type of activations is the object's, its copies' and its weights'") {
    CHECK(exact().activation() == activation_type::f32);
    CHECK(!exact().uses_bf16_dot());
    const auto ops = tier(isa::automatic, 2);
    const exact copy = ops;
    exact assigned;
    assigned = ops;
    CHECK(copy.activation() == activation_type::bf16);
    CHECK(assigned.activation() == activation_type::bf16);
    CHECK(copy.uses_bf16_dot() == ops.uses_bf16_dot());
    CHECK(assigned.uses_bf16_dot() == ops.uses_bf16_dot());
    CHECK(!tier(isa::scalar, 1).uses_bf16_dot());

    stored w(dtype::bf16, 3, 4);
    noise random(1);
    w.fill(random, content::plain);
    const std::array parts = {w.view()};
    matrix x(2, 4);
    x.fill(random, content::plain);
    matrix y(2, 3);
    CHECK_THROWS_AS(ops.linear(x.view(), exact().pack(parts), y.view()), dflash::contract_error);
    CHECK_THROWS_AS(exact().linear(x.view(), ops.pack(parts), y.view()), dflash::contract_error);
}

// ---- the check of the machine's instruction ------------------------------------------------------------------------

namespace {

float high(std::uint32_t word) {
    return numerics::from_bits(word & 0xFFFF0000U);
}
float low(std::uint32_t word) {
    return numerics::from_bits(word << 16);
}

/// An imagined processor: one lane at a time.
template <float (*Step)(std::uint32_t, std::uint32_t, float)>
void imagined(const std::uint32_t* a, const std::uint32_t* b, float* acc) {
    for (int lane = 0; lane < 16; ++lane) {
        acc[lane] = Step(a[lane], b[lane], acc[lane]);
    }
}

float low_half_first(std::uint32_t a, std::uint32_t b, float acc) {
    return numerics::fma(high(a), high(b), numerics::fma(low(a), low(b), acc));
}
float one_rounding(std::uint32_t a, std::uint32_t b, float acc) {
    const double products = static_cast<double>(high(a)) * high(b) + static_cast<double>(low(a)) * low(b);
    return static_cast<float>(products + acc);
}
float pair_first(std::uint32_t a, std::uint32_t b, float acc) {
    return acc + numerics::fma(low(a), low(b), high(a) * high(b));
}
float products_rounded(std::uint32_t a, std::uint32_t b, float acc) {
    const volatile float first = high(a) * high(b);  // volatile: nothing is contracted
    const volatile float sum = acc + first;
    const volatile float second = low(a) * low(b);
    return sum + second;
}
float truncated(std::uint32_t a, std::uint32_t b, float acc) {
    const float once = numerics::from_bits(numerics::to_bits(numerics::fma(high(a), high(b), acc)) & ~1U);
    return numerics::fma(low(a), low(b), once);
}
float small_is_zero(std::uint32_t a, std::uint32_t b, float acc) {
    const float sum = dot_chain_step(a, b, acc);
    return std::abs(sum) < 0x1p-78F ? 0.0F : sum;
}
float saturating(std::uint32_t a, std::uint32_t b, float acc) {
    return (std::min)(dot_chain_step(a, b, acc), 0x1.FFFFFEp127F);
}
float flushes_subnormals(std::uint32_t a, std::uint32_t b, float acc) {
    const auto flush = [](float x) { return std::abs(x) < 0x1p-126F ? 0.0F : x; };
    return flush(
        numerics::fma(flush(low(a)), flush(low(b)), flush(numerics::fma(flush(high(a)), flush(high(b)), flush(acc)))));
}

/// The kernels with the dot instruction, or null where this machine has none.
const dflash::cpu::detail::kernel_table* dot_kernels() {
    return dflash::cpu::detail::find_kernels(isa::avx512_bf16);
}

}  // namespace

TEST_CASE("bf16 tier: the check knows the chain from everything near it") {
    CHECK(dot_is_chain(&imagined<dot_chain_step>));
    CHECK(dot_is_chain(&imagined<flushes_subnormals>));  // none arises: that is what the bound is for
    CHECK(!dot_is_chain(&imagined<low_half_first>));
    CHECK(!dot_is_chain(&imagined<one_rounding>));
    CHECK(!dot_is_chain(&imagined<pair_first>));
    CHECK(!dot_is_chain(&imagined<products_rounded>));
    CHECK(!dot_is_chain(&imagined<truncated>));
    CHECK(!dot_is_chain(&imagined<small_is_zero>));
    CHECK(!dot_is_chain(&imagined<saturating>));
}

TEST_CASE("bf16 tier: where the check fails, f32 arithmetic gives the same bits") {
    if (dot_kernels() == nullptr) {
        MESSAGE("this machine has no bf16 dot instruction");
        return;
    }
    const exact_options options{.threads = 1, .force = isa::avx512_bf16, .activation = activation_type::bf16};
    dflash::cpu::detail::kernel_table kernels = *dot_kernels();
    kernels.dot_is_chain = []() noexcept { return dot_is_chain(&imagined<low_half_first>); };
    const exact fallen_back(options, kernels);
    CHECK(!fallen_back.uses_bf16_dot());
    const exact ops(options);
    MESSAGE("the machine's instruction is used: " << ops.uses_bf16_dot());
    for (const range kind : ranges) {
        for (const index rows : {1, 4, 16, 19}) {
            const problem p(rows, 257, 45, kind, 3);
            const matrix right = expected(p, nullptr, 45);
            CHECK(differing(product(fallen_back, p.w, p.x, 45), right) == 0);
            CHECK(differing(product(ops, p.w, p.x, 45), right) == 0);
        }
    }
    // The door is real: with a check that passes, these kernels are what computes.
    kernels.dot_is_chain = []() noexcept { return true; };
    kernels.dot.run = [](const dflash::cpu::detail::linear_job& job, index, index) { job.y[0] = 4711.0F; };
    const problem p(1, 8, 1, range::plain, 3);
    CHECK(product(exact(options, kernels), p.w, p.x, 1).row(0)[0] == 4711.0F);
}

// ---- controls ------------------------------------------------------------------------------------------------------

namespace {

/// dot_chain with operands taken in any way.
using operand_of = float (*)(float);
float chain_of(const float* w, const float* x, index k, operand_of weight, operand_of activation, bool swapped) {
    float total = 0.0F;
    for (index start = 0; start < k; start += numerics::dot_chunk) {
        float acc = 0.0F;
        for (index i = start; i < (std::min)(k, start + numerics::dot_chunk); ++i) {
            const index at = swapped && (i ^ 1) < k ? (i ^ 1) : i;
            acc = numerics::fma(weight(w[at]), activation(x[at]), acc);
        }
        total = total + acc;
    }
    return total;
}

float rounded(float x) {
    return numerics::to_float(numerics::bf16_operand(x));
}
float as_it_is(float x) {
    return x;
}
float not_flushed(float x) {
    return numerics::to_float(numerics::to_bf16(x));
}
float flushed_first(float x) {
    return not_flushed(std::abs(x) < 0x1p-40F ? 0.0F : x);
}
float rounded_twice(float x) {
    // Through eleven bits, as by way of f16: ties arise that were none.
    const std::uint32_t bits = numerics::to_bits(x);
    return rounded(numerics::from_bits((bits + 0xFFFU + ((bits >> 13) & 1U)) & ~0x1FFFU));
}
float truncating(float x) {
    return numerics::from_bits(numerics::to_bits(x) & 0xFFFF0000U);
}

/// Outputs of the backend that differ from the chain over such operands.
index differences(range kind, operand_of weight, operand_of activation, bool swapped) {
    const index k = 301;
    const index n = 40;
    const problem p(17, k, n, kind, 21);
    const std::vector<float> w = p.w.widened();
    const matrix y = product(tier(isa::automatic, 1), p.w, p.x, n);
    index count = 0;
    for (index r = 0; r < 17; ++r) {
        for (index o = 0; o < n; ++o) {
            const float other = chain_of(w.data() + o * k, p.x.row(r), k, weight, activation, swapped);
            count += differing(y.row(r) + o, &other, 1);
        }
    }
    return count;
}

}  // namespace

TEST_CASE("bf16 tier, controls: other readings of the definition give other bits") {
    CHECK(differences(range::plain, rounded, rounded, false) == 0);
    CHECK(differences(range::around_the_bound, rounded, rounded, false) == 0);
    CHECK(differences(range::plain, rounded, rounded, true) > 0);  // halves swapped
    CHECK(differences(range::plain, rounded, as_it_is, false) > 0);
    CHECK(differences(range::plain, rounded, rounded_twice, false) > 0);
    CHECK(differences(range::plain, rounded, truncating, false) > 0);
    CHECK(differences(range::around_the_bound, not_flushed, rounded, false) > 0);
    CHECK(differences(range::around_the_bound, rounded, not_flushed, false) > 0);
    CHECK(differences(range::around_the_bound, rounded, flushed_first, false) > 0);
}

}  // namespace cpu_tests
