#include <doctest/doctest.h>
#include <dflash/numerics/attention.hpp>

#include "numerics/support.hpp"

using dflash::numerics::attend_row;
using dflash::numerics::attention_scale;
using dflash::numerics::not_a_number;
using numerics_test::index;
using numerics_test::noise;
using numerics_test::same;

namespace numerics = dflash::numerics;

namespace {

constexpr index head_dim = 16;

struct rows {
    std::vector<float> data;  // (s, e)
    index e = head_dim;
    [[nodiscard]] const float* operator()(index j) const { return data.data() + j * e; }
};

/// Attention of one row where `visible` says which of the first `keys` positions it sees.
template <class Visible>
std::vector<float> attend(const std::vector<float>& q, const rows& k, const rows& v, index keys, Visible visible,
                          index first = 0) {
    std::vector<float> out(q.size(), -7.0F);
    attend_row(
        q.data(), attention_scale(k.e), k.e, keys, [&](index j) { return k(j + first); },
        [&](index j) { return v(j + first); }, visible, out.data());
    return out;
}

/// Where the scale may be applied. The definition says: to the query, before the dot product.
enum class scaled { query, score };

/// The definition once more, from whole vectors per chunk.
std::vector<float> literal(const std::vector<float>& q, const rows& k, const rows& v, const std::vector<bool>& sees,
                           scaled where = scaled::query) {
    const float scale = attention_scale(k.e);
    std::vector<float> scaled_q;
    for (const float x : q) {
        scaled_q.push_back(where == scaled::query ? x * scale : x);
    }
    float m = 0.0F;
    float l = 0.0F;
    std::vector<float> o;
    for (std::size_t start = 0; start < sees.size(); start += 256) {
        const std::size_t end = (std::min)(sees.size(), start + 256);
        std::vector<float> s(end - start, -numerics::infinity);
        for (std::size_t j = start; j < end; ++j) {
            if (sees[j]) {
                const volatile float dot = numerics::dot_chain(scaled_q.data(), k(static_cast<index>(j)), k.e);
                s[j - start] = where == scaled::query ? dot : dot * scale;
            }
        }
        if (std::find(sees.begin() + static_cast<index>(start), sees.begin() + static_cast<index>(end), true) ==
            sees.begin() + static_cast<index>(end)) {
            continue;
        }
        const float m_c = *std::max_element(s.begin(), s.end());
        std::vector<float> o_c(q.size(), 0.0F);
        for (std::size_t j = start; j < end; ++j) {
            s[j - start] = sees[j] ? numerics::exp(s[j - start] - m_c) : 0.0F;
            for (std::size_t d = 0; sees[j] && d < o_c.size(); ++d) {
                o_c[d] = std::fma(s[j - start], v(static_cast<index>(j))[d], o_c[d]);
            }
        }
        for (float& x : o_c) {
            x = 0.0F + x;
        }
        const float l_c = numerics::sum_lanes(s.data(), static_cast<index>(s.size()));
        if (o.empty()) {
            m = m_c;
            l = l_c;
            o = o_c;
            continue;
        }
        const float top = (std::max)(m, m_c);
        const float a = numerics::exp(m - top);
        const float b = numerics::exp(m_c - top);
        l = std::fma(l, a, l_c * b);
        for (std::size_t d = 0; d < o.size(); ++d) {
            o[d] = std::fma(o[d], a, o_c[d] * b);
        }
        m = top;
    }
    for (float& x : o) {
        x = x / l;
    }
    return o;
}

}  // namespace

TEST_CASE("attention_scale") {
    CHECK(attention_scale(64) == 0.125F);
    CHECK(attention_scale(16) == 0.25F);
    CHECK(attention_scale(1) == 1.0F);
    CHECK(attention_scale(128) == 0x1.6a09e6p-4F);  // 2^-3.5
}

TEST_CASE("attention by hand") {
    const std::vector<float> q = noise(head_dim, 1);
    const rows v{noise(head_dim * 4, 2)};
    const rows equal_keys{std::vector<float>(static_cast<std::size_t>(head_dim * 4), 0.5F)};
    // One key: the value itself.
    const std::vector<float> one = attend(q, equal_keys, v, 1, [](index) { return true; });
    CHECK(same(one, std::vector<float>(v.data.begin(), v.data.begin() + head_dim)));
    // Four equal keys: the mean of the values.
    const std::vector<float> four = attend(q, equal_keys, v, 4, [](index) { return true; });
    for (std::size_t d = 0; d < four.size(); ++d) {
        const auto at = [&](index j) { return v(j)[d]; };
        REQUIRE(same(four[d], (((at(0) + at(1)) + at(2)) + at(3)) / 4.0F));
    }
    // A score above the others by more than exp can express: that value alone.
    rows sharp = equal_keys;
    std::fill_n(sharp.data.begin() + 2 * head_dim, head_dim, 0.0F);
    sharp.data[2 * head_dim] = 1e4F / q[0];
    const std::vector<float> alone = attend(q, sharp, v, 4, [](index) { return true; });
    CHECK(same(alone, std::vector<float>(v.data.begin() + 2 * head_dim, v.data.begin() + 3 * head_dim)));
}

TEST_CASE("attention equals the definition at every chunk edge and agrees with f64") {
    const std::vector<float> q = noise(head_dim, 3, 4.0F);
    const rows k{noise(head_dim * 600, 4, 2.0F)};
    const rows v{noise(head_dim * 600, 5)};
    for (const index keys : {1, 2, 31, 127, 128, 129, 255, 256, 257, 511, 512, 513, 600}) {
        const std::vector<float> out = attend(q, k, v, keys, [](index) { return true; });
        CHECK_MESSAGE(same(out, literal(q, k, v, std::vector<bool>(static_cast<std::size_t>(keys), true))), keys);

        std::vector<double> wanted(head_dim, 0.0);
        double sum = 0.0;
        for (index j = 0; j < keys; ++j) {
            double s = 0.0;
            for (std::size_t d = 0; d < q.size(); ++d) {
                s += static_cast<double>(q[d]) * static_cast<double>(k(j)[d]);
            }
            const double p = std::exp(s / 4.0);
            sum += p;
            for (std::size_t d = 0; d < q.size(); ++d) {
                wanted[d] += p * static_cast<double>(v(j)[d]);
            }
        }
        for (std::size_t d = 0; d < q.size(); ++d) {
            REQUIRE(std::fabs(static_cast<double>(out[d]) - wanted[d] / sum) < 2e-6);
        }
    }
}

TEST_CASE("the scale multiplies the query, not the score") {
    // Head sizes whose scale is no power of two: only there do the two differ. 136 is more than one dot chunk.
    for (const index e : {24, 136}) {
        const std::vector<float> q = noise(e, 26, 4.0F);
        const rows k{noise(e * 513, 27, 2.0F), e};
        const rows v{noise(e * 513, 28), e};
        for (const index keys : {31, 255, 256, 257, 512, 513}) {
            const std::vector<float> out = attend(q, k, v, keys, [](index) { return true; });
            const std::vector<bool> all(static_cast<std::size_t>(keys), true);
            CHECK_MESSAGE(same(out, literal(q, k, v, all)), "head_dim ", e, ", keys ", keys);
            CHECK_FALSE(same(literal(q, k, v, all), literal(q, k, v, all, scaled::score)));
        }
    }
}

TEST_CASE("a chain over values that underflows to -0 becomes +0") {
    // Odd positions have the weight exp(-60) and the value -2^-100: their product is below every subnormal, so that the
    // chain's +0 turns into -0, and the +0 of the chunk turns it back.
    const std::vector<float> q = {60.0F};
    rows k{std::vector<float>(260, 0.0F), 1};
    rows v{std::vector<float>(260, 0.0F), 1};
    for (std::size_t j = 1; j < 260; j += 2) {
        k.data[j] = -1.0F;
        v.data[j] = -0x1p-100F;
    }
    CHECK(same(std::fma(numerics::exp(-60.0F), -0x1p-100F, 0.0F), -0.0F));
    struct window {
        index first, last;
    };
    for (const window w : {window{0, 2}, window{0, 256}, window{256, 258}, window{0, 258}}) {
        const auto sees = [w](index j) { return j >= w.first && j < w.last && (j % 256 < 2 || j == 255); };
        CHECK_MESSAGE(same(attend(q, k, v, 260, sees), std::vector<float>{0.0F}), w.first, " .. ", w.last);
    }
}

TEST_CASE("masking a key and leaving it out give the same bits") {
    const std::vector<float> q = noise(head_dim, 6, 4.0F);
    const rows k{noise(head_dim * 700, 7, 2.0F)};
    const rows v{noise(head_dim * 700, 8)};
    for (const index seen : {1, 100, 255, 256, 257, 300, 511, 512, 513, 600}) {
        const std::vector<float> left_out = attend(q, k, v, seen, [](index) { return true; });
        for (const index total : {seen + 1, seen + 17, index{700}}) {
            CHECK(same(left_out, attend(q, k, v, total, [&](index j) { return j < seen; })));
        }
    }
}

TEST_CASE("rows a query may not see are never read") {
    const std::vector<float> q = noise(head_dim, 9);
    const rows k{noise(head_dim * 600, 10)};
    const rows v{noise(head_dim * 600, 11)};
    const auto windows = {std::pair<index, index>{0, 1}, {255, 256}, {250, 260}, {256, 512}, {300, 301}, {512, 600}};
    for (const auto& [first, last] : windows) {
        const auto visible = [from = first, to = last](index j) { return j >= from && j < to && (j - from) % 3 == 0; };
        rows poisoned_k = k;
        rows poisoned_v = v;
        for (index j = 0; j < 600; ++j) {
            if (!visible(j)) {
                std::fill_n(poisoned_k.data.begin() + j * head_dim, head_dim, not_a_number);
                std::fill_n(poisoned_v.data.begin() + j * head_dim, head_dim, not_a_number);
            }
        }
        const std::vector<float> clean = attend(q, k, v, 600, visible);
        CHECK(same(clean, attend(q, poisoned_k, poisoned_v, 600, visible)));
        CHECK(std::none_of(clean.begin(), clean.end(), [](float x) { return std::isnan(x); }));
        std::vector<float> out(head_dim);
        bool trespassed = false;
        const auto watch = [&](const rows& r) {
            return [&](index j) {
                trespassed = trespassed || !visible(j);
                return r(j);
            };
        };
        attend_row(q.data(), 0.25F, head_dim, 600, watch(k), watch(v), visible, out.data());
        CHECK_FALSE(trespassed);
    }
}

TEST_CASE("a chunk without a visible key is skipped, first, middle or last") {
    const std::vector<float> q = noise(head_dim, 12, 4.0F);
    const rows k{noise(head_dim * 800, 13, 2.0F)};
    const rows v{noise(head_dim * 800, 14)};
    // The whole first chunk hidden: the same as a sequence that starts 256 later.
    const std::vector<float> hidden = attend(q, k, v, 700, [](index j) { return j >= 256; });
    CHECK(same(hidden, attend(q, k, v, 700 - 256, [](index) { return true; }, 256)));
    // Chunks are counted from position 0: a window that starts inside one is another grouping than its own sequence.
    const auto sees = [](index j) { return j < 200 || (j >= 512 && j < 650); };
    std::vector<bool> table(800);
    for (index j = 0; j < 800; ++j) {
        table[static_cast<std::size_t>(j)] = sees(j);
    }
    CHECK(same(attend(q, k, v, 800, sees), literal(q, k, v, table)));
}

TEST_CASE("chunks are joined in both directions of the maximum") {
    // Rising and falling scores across chunks: either side may be the one that is scaled down.
    const std::vector<float> q = noise(head_dim, 15, 4.0F);
    for (const float slope : {-0.01F, 0.01F}) {
        rows k{noise(head_dim * 600, 16)};
        for (std::size_t i = 0; i < k.data.size(); ++i) {
            k.data[i] += slope * static_cast<float>(i / head_dim) * q[i % head_dim];
        }
        const rows v{noise(head_dim * 600, 17)};
        CHECK(same(attend(q, k, v, 600, [](index) { return true; }), literal(q, k, v, std::vector<bool>(600, true))));
    }
}

TEST_CASE("NaN in a visible row shows in the result") {
    const std::vector<float> q = noise(head_dim, 18);
    for (const index at : {0, 100, 255, 256, 299}) {
        rows k{noise(head_dim * 300, 19)};
        const rows v{noise(head_dim * 300, 20)};
        k.data[static_cast<std::size_t>(at * head_dim)] = not_a_number;
        for (const float x : attend(q, k, v, 300, [](index) { return true; })) {
            CHECK(std::isnan(x));
        }
    }
}

TEST_CASE("a row that sees nothing is a broken contract") {
    const std::vector<float> q = noise(head_dim, 21);
    const rows k{noise(head_dim * 3, 22)};
    CHECK_THROWS_AS(attend(q, k, k, 3, [](index) { return false; }), dflash::contract_error);
    CHECK_THROWS_AS(attend(q, k, k, 0, [](index) { return true; }), dflash::contract_error);
}

TEST_CASE("attention_weights are the shares of the values in attend_row, at every chunk edge and under a mask") {
    const std::vector<float> q = noise(head_dim, 23, 4.0F);
    const rows k{noise(head_dim * 600, 24, 2.0F)};
    const rows v{noise(head_dim * 600, 25)};
    for (const index keys : {1, 7, 255, 256, 257, 513, 600}) {
        const auto sees = [](index j) { return j % 5 != 3; };
        std::vector<float> weights(static_cast<std::size_t>(keys), -7.0F);
        dflash::numerics::attention_weights(
            q.data(), attention_scale(head_dim), head_dim, keys, [&](index j) { return k(j); }, sees, weights.data());

        double sum = 0.0;
        std::vector<double> joined(head_dim, 0.0);
        for (index j = 0; j < keys; ++j) {
            const auto weight = static_cast<double>(weights[static_cast<std::size_t>(j)]);
            REQUIRE((sees(j) ? weight >= 0.0 : weight == 0.0));
            sum += weight;
            for (std::size_t d = 0; d < joined.size(); ++d) {
                joined[d] += weight * static_cast<double>(v(j)[d]);
            }
        }
        CHECK(std::fabs(sum - 1.0) < 1e-6);
        const std::vector<float> out = attend(q, k, v, keys, sees);
        for (std::size_t d = 0; d < joined.size(); ++d) {
            REQUIRE(std::fabs(joined[d] - static_cast<double>(out[d])) < 2e-6);
        }

        // The bits: what attend_row returns when the value of one key is 1 and all others are 0.
        for (index first = 0; first < keys; first += head_dim) {
            rows hot{std::vector<float>(static_cast<std::size_t>(keys * head_dim), 0.0F)};
            const index count = (std::min)(head_dim, keys - first);
            for (index i = 0; i < count; ++i) {
                hot.data[static_cast<std::size_t>((first + i) * head_dim + i)] = 1.0F;
            }
            const std::vector<float> shares = attend(q, k, hot, keys, sees);
            for (index i = 0; i < count; ++i) {
                REQUIRE(same(shares[static_cast<std::size_t>(i)], weights[static_cast<std::size_t>(first + i)]));
            }
        }
    }
}

TEST_CASE("attention_weights of scores a multiple of ln 2 are fractions") {
    // Scores 2 ln 2, 0, ln 2: weights 4, 1, 2 of 7.
    const float ln2 = 0x1.62e430p-1F;
    const float q[2] = {ln2, 0.0F};
    const float keys[3][2] = {{2.0F, 5.0F}, {0.0F, -3.0F}, {1.0F, 0.5F}};
    float weights[3] = {};
    dflash::numerics::attention_weights(
        q, 1.0F, 2, 3, [&](index j) { return keys[j]; }, [](index) { return true; }, weights);
    CHECK(weights[0] == 4.0F / 7.0F);
    CHECK(weights[1] == 1.0F / 7.0F);
    CHECK(weights[2] == 2.0F / 7.0F);
}
