// attend of the exact backend, against numerics::attend_row bit for bit.
#include <dflash/cache/contiguous.hpp>
#include <dflash/numerics/attention.hpp>

#include "support.hpp"

namespace cpu_tests {

using dflash::mask_rule;
using dflash::cpu::isa;
namespace numerics = dflash::numerics;

namespace {

/// A cache of one layer with `length` positions that count, and NaN wherever nothing may be read.
struct layer_fixture {
    dflash::contiguous_cache<float> cache;
    index length;

    layer_fixture(index kv_heads, index head_dim, index length_, noise& random, content kind)
        : cache(1, kv_heads, head_dim, length_ + 40), length(length_) {
        matrix keys(length + 40, kv_heads * head_dim);
        matrix values(length + 40, kv_heads * head_dim);
        matrix good_keys(length, kv_heads * head_dim);
        matrix good_values(length, kv_heads * head_dim);
        good_keys.fill(random, kind);
        good_values.fill(random, content::plain);
        cache.write(0, 0, keys.view(), values.view());  // poison
        cache.write(0, 0, good_keys.view(), good_values.view());
    }
    dflash::contiguous_layer<float> layer() const { return cache.layer(0, length); }
};

/// One position rewritten: element 3 of its key, or of its value, becomes `x`.
void replace(layer_fixture& f, index kv_heads, index e, index at, bool in_value, float x) {
    matrix key(1, kv_heads * e);
    matrix value(1, kv_heads * e);
    const auto layer = f.layer();
    for (index g = 0; g < kv_heads; ++g) {
        for (index d = 0; d < e; ++d) {
            key.row(0)[g * e + d] = layer.key(g, at, d);
            value.row(0)[g * e + d] = layer.value(g, at, d);
        }
    }
    (in_value ? value : key).row(0)[3] = x;
    f.cache.write(0, at, key.view(), value.view());
}

/// What the scalar specification gives.
matrix expected(const matrix& q, const layer_fixture& f, index heads, index kv_heads, index e, index position,
                mask_rule mask, float scale) {
    matrix out(q.rows(), heads * e);
    const auto layer = f.layer();
    std::vector<float> key(static_cast<std::size_t>(e));
    for (index i = 0; i < q.rows(); ++i) {
        for (index h = 0; h < heads; ++h) {
            const index g = h / (heads / kv_heads);
            numerics::attend_row(
                q.row(i) + h * e, scale, e, f.length,
                [&](index j) {
                    for (index d = 0; d < e; ++d) {
                        key[static_cast<std::size_t>(d)] = layer.key(g, j, d);
                    }
                    return key.data();
                },
                [&](index j) { return layer.value_rows(g) + j * e; },
                [&](index j) { return mask.visible(position + i, j); }, out.row(i) + h * e);
        }
    }
    return out;
}

void compare(const matrix& q, const layer_fixture& f, index heads, index kv_heads, index e, index position,
             mask_rule mask, const std::vector<int>& thread_counts) {
    const float scale = numerics::attention_scale(e);
    const matrix right = expected(q, f, heads, kv_heads, e, position, mask, scale);
    for (const isa set : instruction_sets()) {
        for (const int threads : thread_counts) {
            const auto ops = backend(set, threads);
            matrix out(q.rows(), heads * e, 3, 1);
            ops.attend({q.view(), f.layer(), out.view(), heads, kv_heads, e, position, mask, scale});
            CAPTURE(f.length);
            CAPTURE(q.rows());
            CAPTURE(heads);
            CAPTURE(kv_heads);
            CAPTURE(e);
            CAPTURE(position);
            CAPTURE(mask.causal);
            CAPTURE(mask.window);
            CAPTURE(label(set, threads));
            REQUIRE(differing(out, right) == 0);
            REQUIRE(out.padding_intact());
        }
    }
}

}  // namespace

TEST_CASE("attend equals the scalar specification across every chunk edge, causal and two-sided, with windows") {
    std::uint64_t seed = 0;
    for (const index length : {1, 2, 15, 16, 17, 31, 33, 127, 128, 129, 255, 256, 257, 258, 300, 511, 512, 513, 600}) {
        for (const index rows : {1, 2, 5, 16, 17}) {
            if (rows > length) {
                continue;
            }
            for (const mask_rule mask : {mask_rule{true, 0}, mask_rule{false, 0}, mask_rule{true, 4},
                                         mask_rule{false, 7}, mask_rule{true, 200}, mask_rule{false, 260}}) {
                ++seed;
                noise random(seed);
                const index e = 8 + static_cast<index>(seed % 3) * 13;  // 8, 21, 34
                const index kv_heads = 1 + static_cast<index>(seed % 2);
                const index heads = kv_heads * (1 + static_cast<index>(seed % 4));
                const layer_fixture f(kv_heads, e, length, random, content::plain);
                matrix q(rows, heads * e, 2, 1);
                q.fill(random, content::plain);
                compare(q, f, heads, kv_heads, e, length - rows, mask, {1});
            }
        }
    }
}

TEST_CASE("head sizes around one dot chunk, and every way to share KV heads") {
    struct shape {
        index heads, kv_heads, e;
    };
    for (const shape s : {shape{1, 1, 1}, shape{2, 1, 2}, shape{4, 2, 16}, shape{6, 2, 17}, shape{3, 3, 64},
                          shape{8, 1, 80}, shape{28, 4, 16}, shape{2, 1, 127}, shape{4, 1, 128}, shape{4, 2, 129},
                          shape{2, 2, 130}, shape{3, 1, 256}, shape{1, 1, 300}}) {
        noise random(static_cast<std::uint64_t>(s.e));
        const layer_fixture f(s.kv_heads, s.e, 270, random, content::plain);
        for (const index rows : {1, 3, 9}) {
            matrix q(rows, s.heads * s.e);
            q.fill(random, content::plain);
            compare(q, f, s.heads, s.kv_heads, s.e, 270 - rows, mask_rule{}, {1});
        }
    }
}

TEST_CASE("threads, blocks on both sides of every tile, and large scores") {
    noise random(9);
    const layer_fixture f(2, 32, 600, random, content::wide);
    for (const index rows : {1, 2, 31, 33, 64, 65}) {
        matrix q(rows, 4 * 32);
        q.fill(random, content::wide);
        compare(q, f, 4, 2, 32, 600 - rows, mask_rule{},
                rows == 33 ? std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8} : std::vector<int>{2});
    }
}

TEST_CASE("a row's result does not depend on the other rows, nor on keys it may not see") {
    noise random(4);
    const index e = 20;
    const index length = 300;
    layer_fixture f(1, e, length, random, content::plain);
    matrix q(16, 2 * e);
    q.fill(random, content::plain);
    const float scale = numerics::attention_scale(e);
    for (const isa set : instruction_sets()) {
        const auto ops = backend(set, 2);
        matrix whole(16, 2 * e);
        ops.attend({q.view(), f.layer(), whole.view(), 2, 1, e, length - 16, mask_rule{}, scale});

        // Row i alone, over a cache whose later rows do not exist.
        for (index i = 0; i < 16; ++i) {
            matrix one(1, 2 * e);
            const index visible = length - 16 + i + 1;
            ops.attend({matrix_view<const float>(q.view()).rows(i, 1), f.cache.layer(0, visible), one.view(), 2, 1, e,
                        visible - 1, mask_rule{}, scale});
            CHECK(differing(one.row(0), whole.row(i), 2 * e) == 0);
        }

        // Rows after a rejection hold NaN: earlier rows do not notice, and the control shows that the row itself does.
        noise again(4);
        layer_fixture spoiled = layer_fixture(1, e, length, again, content::plain);
        matrix nan(5, e);
        spoiled.cache.write(0, length - 5, nan.view(), nan.view());
        matrix q_spoiled = q;
        for (index i = 11; i < 16; ++i) {
            for (index d = 0; d < 2 * e; ++d) {
                q_spoiled.row(i)[d] = numerics::not_a_number;
            }
        }
        matrix out(16, 2 * e);
        ops.attend({q_spoiled.view(), spoiled.layer(), out.view(), 2, 1, e, length - 16, mask_rule{}, scale});
        for (index i = 0; i < 11; ++i) {
            CHECK(differing(out.row(i), whole.row(i), 2 * e) == 0);
        }
        CHECK(out.row(11)[0] != out.row(11)[0]);
    }
}

TEST_CASE("NaN and infinity in a key, a value or a query make the rows that see it what the specification says") {
    struct shape {
        index heads, kv_heads, e;
    };
    const index rows = 4;
    const index length = 300;
    for (const shape s : {shape{1, 1, 8}, shape{6, 2, 21}}) {
        for (const float bad : {numerics::not_a_number, numerics::infinity, -numerics::infinity}) {
            for (const index at : {0, 5, 255, 256, 296, 297}) {
                for (const mask_rule mask : {mask_rule{true, 0}, mask_rule{true, 1}, mask_rule{false, 0}}) {
                    for (const bool in_value : {false, true}) {
                        noise random(static_cast<std::uint64_t>(at + 7));
                        layer_fixture f(s.kv_heads, s.e, length, random, content::plain);
                        replace(f, s.kv_heads, s.e, at, in_value, bad);
                        matrix q(rows, s.heads * s.e);
                        q.fill(random, content::plain);
                        compare(q, f, s.heads, s.kv_heads, s.e, length - rows, mask, {1, 2});
                    }
                }
            }
            noise random(8);
            const layer_fixture f(s.kv_heads, s.e, length, random, content::plain);
            matrix q(rows, s.heads * s.e);
            q.fill(random, content::plain);
            q.row(1)[3] = bad;
            compare(q, f, s.heads, s.kv_heads, s.e, length - rows, mask_rule{true, 0}, {1, 2});
        }
    }
}

TEST_CASE("scores of -inf: beside others they weigh nothing, alone in a chunk they give NaN") {
    // 260 positions: row 0 of 4 sees one key of the second chunk, 256.
    const index e = 8;
    noise random(10);
    layer_fixture f(1, e, 260, random, content::plain);
    replace(f, 1, e, 256, false, -numerics::infinity);
    matrix q(4, e);
    q.fill(random, content::plain);
    for (index i = 0; i < 4; ++i) {
        q.row(i)[3] = 0.5F;
    }
    compare(q, f, 1, 1, e, 256, mask_rule{true, 0}, {1});
    const matrix right = expected(q, f, 1, 1, e, 256, mask_rule{true, 0}, numerics::attention_scale(e));
    CHECK(right.row(0)[0] != right.row(0)[0]);
    CHECK(numerics::is_finite(right.row(1)[0]));
}

TEST_CASE("values whose chain underflows to -0 give +0") {
    const index e = 17;
    matrix keys(300, e);
    matrix values(300, e);
    for (index j = 0; j < 300; ++j) {
        for (index d = 0; d < e; ++d) {
            keys.row(j)[d] = j % 2 == 0 ? 0.0F : -60.0F;
            values.row(j)[d] = j % 2 == 0 ? 0.0F : -0x1p-100F;
        }
    }
    noise random(11);
    layer_fixture f(1, e, 300, random, content::plain);
    f.cache.write(0, 0, keys.view(), values.view());
    matrix q(3, e);
    for (index i = 0; i < 3; ++i) {
        for (index d = 0; d < e; ++d) {
            q.row(i)[d] = d == 0 ? 4.5F : 0.0F;  // scores 0 and about -65
        }
    }
    // With a window of two, rows 255 and 257 see a key of weight 1 and then one whose product with its value vanishes.
    compare(q, f, 1, 1, e, 255, mask_rule{true, 2}, {1});
    compare(q, f, 1, 1, e, 297, mask_rule{true, 0}, {1});
    const matrix right = expected(q, f, 1, 1, e, 255, mask_rule{true, 2}, numerics::attention_scale(e));
    CHECK(numerics::to_bits(right.row(0)[0]) == 0U);
}

TEST_CASE("a window at least as long as the context is no window") {
    noise random(8);
    const layer_fixture f(1, 16, 520, random, content::plain);
    matrix q(9, 16);
    q.fill(random, content::plain);
    for (const isa set : instruction_sets()) {
        const auto ops = backend(set, 1);
        matrix full(9, 16);
        matrix window(9, 16);
        ops.attend({q.view(), f.layer(), full.view(), 1, 1, 16, 511, mask_rule{true, 0}, 0.25F});
        ops.attend({q.view(), f.layer(), window.view(), 1, 1, 16, 511, mask_rule{true, 520}, 0.25F});
        CHECK(differing(full, window) == 0);
        ops.attend({q.view(), f.layer(), window.view(), 1, 1, 16, 511, mask_rule{true, 519}, 0.25F});
        CHECK(differing(full, window) > 0);
    }
}

TEST_CASE("attend refuses what it cannot do") {
    noise random(2);
    const layer_fixture f(2, 8, 10, random, content::plain);
    matrix q(1, 3 * 8);
    q.fill(random, content::plain);
    matrix out(1, 3 * 8);
    const dflash::cpu::exact ops;
    CHECK_THROWS_AS(ops.attend({q.view(), f.layer(), out.view(), 3, 2, 8, 9, mask_rule{}, 1.0F}),
                    dflash::contract_error);
    matrix q4(1, 4 * 8);
    q4.fill(random, content::plain);
    matrix out4(1, 4 * 8);
    CHECK_THROWS_AS(ops.attend({q4.view(), f.cache.layer(0, 0), out4.view(), 4, 2, 8, 0, mask_rule{}, 1.0F}),
                    dflash::contract_error);
}

}  // namespace cpu_tests
