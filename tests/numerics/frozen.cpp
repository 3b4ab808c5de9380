// The bits of every constant and every function on fixed inputs. A digest that changes here changes every stored
// result of the library: it means a different arithmetic, and has to be a decision.
#include <doctest/doctest.h>
#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/attention.hpp>
#include <dflash/numerics/digest.hpp>
#include <dflash/numerics/gumbel.hpp>
#include <dflash/numerics/linear.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/numerics/softmax.hpp>
#include <dflash/numerics/tanh.hpp>

#include "numerics/support.hpp"

using dflash::numerics::digest;
using numerics_test::index;
using numerics_test::mix;
using numerics_test::noise;

namespace numerics = dflash::numerics;

namespace {

template <class Function>
std::uint64_t over_all_magnitudes(Function function) {
    digest result;
    for (std::uint32_t i = 0; i < 20000; ++i) {
        const float y = function(numerics::from_bits(mix(i)));
        result.add(std::span<const float>(&y, 1));
    }
    return result.value();
}

template <class Function>
std::uint64_t over_scale(float scale, Function function) {
    digest result;
    for (const float x : noise(20000, 1, scale)) {
        const float y = function(x);
        result.add(std::span<const float>(&y, 1));
    }
    return result.value();
}

template <std::size_t N>
void add(digest& to, const double (&table)[N]) {
    for (const double value : table) {
        to.add(numerics::to_bits(value));
    }
}

}  // namespace

TEST_CASE("digest") {
    CHECK(digest{}.value() == 0xCBF29CE484222325U);
    digest a;  // the published FNV-1a value of the four bytes "foob"
    const float foob = numerics::from_bits(0x626F6F66U);
    a.add(std::span<const float>(&foob, 1));
    CHECK(a.value() == 0xDD120E790C2512AFU);
    const auto of = [](float x) {
        digest d;
        d.add(std::span<const float>(&x, 1));
        return d.value();
    };
    CHECK(of(numerics::from_bits(0x7FC00001U)) == of(numerics::from_bits(0xFF800001U)));
    CHECK(of(0.0F) != of(-0.0F));
    digest words;
    words.add(std::uint64_t{1});
    CHECK(words.value() != digest{}.value());
}

TEST_CASE("frozen: constants") {
    digest d;
    using e = numerics::exp_constants;
    using l = numerics::log_constants;
    using t = numerics::tanh_constants;
    using m = numerics::math64_constants;
    d.add(e::g);
    d.add(std::vector<float>{e::high, e::low, e::log2e, e::ln2_hi, e::ln2_lo});
    d.add(l::q);
    d.add(std::vector<float>{l::ln2_hi, l::ln2_lo});
    d.add(std::uint64_t{l::two_thirds});
    d.add(t::t);
    d.add(std::vector<float>{t::joint, t::saturation});
    add(d, m::exp2);
    add(d, m::log2);
    add(d, m::sin);
    add(d, m::cos);
    const double rest[] = {m::two_over_pi, m::half_pi_1, m::half_pi_2, m::half_pi_3, m::two_pi, m::ln2};
    add(d, rest);
    d.add(std::uint64_t{numerics::dot_chunk});
    d.add(std::uint64_t{numerics::sum_chunk});
    d.add(std::uint64_t{numerics::sum_width});
    d.add(std::uint64_t{numerics::key_chunk});
    CHECK(d.value() == 0x76BE545FB980B700U);
}

TEST_CASE("frozen: functions of one float") {
    CHECK(over_all_magnitudes([](float x) { return numerics::exp(x); }) == 0xD9D5EA1C993E99F6U);
    CHECK(over_scale(100.0F, [](float x) { return numerics::exp(x); }) == 0x01B7C6CEC1375882U);
    CHECK(over_all_magnitudes([](float x) { return numerics::log(x); }) == 0x9EE15512F8B73D4DU);
    CHECK(over_scale(4.0F, [](float x) { return numerics::log(x); }) == 0x17AA1C9382153FCBU);
    CHECK(over_all_magnitudes([](float x) { return numerics::log1p(x); }) == 0xFE28A5099839237CU);
    CHECK(over_scale(1.0F, [](float x) { return numerics::log1p(x); }) == 0xE572C980C4B531D7U);
    CHECK(over_all_magnitudes([](float x) { return numerics::tanh(x); }) == 0x0341686A9F324961U);
    CHECK(over_scale(5.0F, [](float x) { return numerics::tanh(x); }) == 0x714990C42CC82B42U);
    CHECK(over_scale(30.0F, [](float x) { return numerics::silu(x); }) == 0x00610CFA61F3C774U);
    CHECK(over_all_magnitudes([](float x) { return numerics::gumbel(numerics::to_bits(x)); }) == 0x575CDD358BF3256DU);
}

TEST_CASE("frozen: f64 functions") {
    digest d;
    for (std::uint32_t i = 0; i < 5000; ++i) {
        const double x = static_cast<double>(static_cast<std::int32_t>(mix(i))) * 0x1p-22;
        d.add(numerics::to_bits(numerics::exp2(x)));
        d.add(numerics::to_bits(numerics::log2(static_cast<double>(mix(i)))));
        const numerics::sine_cosine both = numerics::sincos(x);
        d.add(numerics::to_bits(both.sin));
        d.add(numerics::to_bits(both.cos));
    }
    CHECK(d.value() == 0xB75527728CFEAB15U);
}

TEST_CASE("frozen: rows") {
    digest d;
    for (const index n : {1, 33, 128, 129, 257, 600, 1025}) {
        const std::vector<float> a = noise(n, 1, 3.0F);
        const std::vector<float> b = noise(n, 2, 3.0F);
        std::vector<float> y(a.size());
        const std::vector<float> sums = {numerics::dot_chain(a.data(), b.data(), n), numerics::sum_lanes(a.data(), n),
                                         numerics::sum_squares_lanes(a.data(), n), numerics::log_sum_exp(a.data(), n)};
        d.add(sums);
        numerics::rms_norm(a.data(), b.data(), 1e-6F, n, y.data());
        d.add(y);
        numerics::softmax(a.data(), n, y.data());
        d.add(y);
    }
    CHECK(d.value() == 0x71AD75FFF2107EC8U);
}

TEST_CASE("frozen: rotary tables") {
    digest d;
    numerics::rope_parameters p;
    p.theta = 1000000.0;
    p.original_max_position = 4096.0;
    p.factor = 4.0;
    for (const auto kind : {numerics::rope_scaling_kind::none, numerics::rope_scaling_kind::linear,
                            numerics::rope_scaling_kind::llama3, numerics::rope_scaling_kind::yarn}) {
        p.kind = kind;
        const numerics::rope_table table(p, 64, 300);
        for (index pos = 0; pos < 300; pos += 13) {
            d.add(std::span<const float>(table.cos(pos), 32));
            d.add(std::span<const float>(table.sin(pos), 32));
            std::vector<float> x = noise(64, 1);
            numerics::rope_half(x.data(), table.cos(pos), table.sin(pos), 64);
            d.add(x);
        }
    }
    CHECK(d.value() == 0xF47E98E5F9FB76C6U);
}

TEST_CASE("frozen: attention") {
    digest d;
    const index head_dim = 32;
    const std::vector<float> q = noise(head_dim, 1, 4.0F);
    const std::vector<float> k = noise(head_dim * 600, 2);
    const std::vector<float> v = noise(head_dim * 600, 3);
    std::vector<float> out(static_cast<std::size_t>(head_dim));
    for (const index window : {5, 256, 300, 600}) {
        numerics::attend_row(
            q.data(), numerics::attention_scale(head_dim), head_dim, 600,
            [&](index j) { return k.data() + j * head_dim; }, [&](index j) { return v.data() + j * head_dim; },
            [&](index j) { return j >= 600 - window; }, out.data());
        d.add(out);
    }
    CHECK(d.value() == 0x04AC7765376C80CCU);
}
