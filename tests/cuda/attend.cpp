// The device cache and attend of the exact CUDA backend, against numerics::attend_row bit for bit.
#include <algorithm>
#include <vector>

#include <dflash/numerics/attention.hpp>

#include "support.hpp"

namespace cuda_tests {

using dflash::mask_rule;

namespace {

/// Keys and values of one layer on both sides; what does not count is NaN on the device.
struct layer_fixture {
    matrix keys;
    matrix values;
    dflash::cuda::device_cache cache;
    index length;

    layer_fixture(const dflash::cuda::exact& ops, index kv_heads, index e, index length_, noise& random, content kind)
        : keys(length_, kv_heads * e),
          values(length_, kv_heads * e),
          cache(2, kv_heads, e, length_ + 9),
          length(length_) {
        keys.fill(random, kind);
        values.fill(random, content::plain);
        device_matrix poison(ops, length + 9, kv_heads * e);
        ops.write(cache, 1, 0, poison.view(), poison.view());
        // In two calls, as prefill would.
        device_matrix k(ops, keys);
        device_matrix v(ops, values);
        const index half = length / 2;
        ops.write(cache, 1, 0, k.view().rows(0, half), v.view().rows(0, half));
        ops.write(cache, 1, half, k.view().rows(half, length - half), v.view().rows(half, length - half));
        ops.wait();
    }
};

matrix expected(const matrix& q, const layer_fixture& f, index heads, index kv_heads, index e, index position,
                mask_rule mask, float scale) {
    matrix out(q.rows(), heads * e);
    for (index i = 0; i < q.rows(); ++i) {
        for (index h = 0; h < heads; ++h) {
            const index g = h / (heads / kv_heads);
            numerics::attend_row(
                q.row(i) + h * e, scale, e, f.length, [&](index j) { return f.keys.row(j) + g * e; },
                [&](index j) { return f.values.row(j) + g * e; },
                [&](index j) { return mask.visible(position + i, j); }, out.row(i) + h * e);
        }
    }
    return out;
}

void compare(const dflash::cuda::exact& ops, index rows, index length, index kv_heads, index group, index e,
             index position, mask_rule mask, content kind, std::uint64_t seed) {
    noise random(seed);
    const layer_fixture f(ops, kv_heads, e, length, random, kind);
    matrix q(rows, kv_heads * group * e, 2);
    q.fill(random, kind);
    const float scale = numerics::attention_scale(e);
    device_matrix queries(ops, q);
    device_matrix out(ops, rows, q.cols(), 3);
    ops.attend(
        {queries.view(), f.cache.layer(1, length), out.view(), kv_heads * group, kv_heads, e, position, mask, scale});
    const matrix got = out.host(ops);
    CAPTURE(rows);
    CAPTURE(length);
    CAPTURE(kv_heads);
    CAPTURE(group);
    CAPTURE(e);
    CAPTURE(position);
    CAPTURE(mask.causal);
    CAPTURE(mask.window);
    REQUIRE(differing(got, expected(q, f, kv_heads * group, kv_heads, e, position, mask, scale)) == 0);
    REQUIRE(got.padding_intact());
}

}  // namespace

TEST_CASE("attend equals the scalar specification across every chunk edge, causal and two-sided, with windows") {
    const dflash::cuda::exact ops;
    std::uint64_t seed = 0;
    for (const index length : {1, 2, 31, 32, 33, 128, 255, 256, 257, 300, 512, 513, 700}) {
        for (const index rows : {1, 2, 5, 16, 33}) {
            if (rows > length) {
                continue;
            }
            ++seed;
            const index e = seed % 3 == 0 ? 64 : seed % 3 == 1 ? 6 : 136;
            const auto kind = seed % 4 == 0 ? content::wide : content::plain;
            const index position = length - rows;
            const auto kv_heads = static_cast<index>(1 + seed % 2);
            const auto group = static_cast<index>(1 + seed % 3);
            compare(ops, rows, length, kv_heads, group, e, position, {.causal = true}, kind, seed);
            compare(ops, rows, length, kv_heads, group, e, position, {.causal = false}, kind, seed);
            compare(ops, rows, length, 1, group, e, position, {.causal = true, .window = 7}, kind, seed);
            compare(ops, rows, length, 1, group, e, position, {.causal = false, .window = 130}, kind, seed);
        }
    }
}

TEST_CASE("a chunk that other rows see and this one does not leaves no trace") {
    const dflash::cuda::exact ops;
    // Rows on both sides of the edge between two chunks.
    compare(ops, 8, 260, 2, 2, 16, 252, {.causal = true}, content::plain, 1);
    compare(ops, 8, 516, 1, 4, 16, 508, {.causal = true, .window = 5}, content::plain, 2);
}

TEST_CASE("a score that is NaN or infinite makes the rows that see it what the specification says, and no other") {
    const dflash::cuda::exact ops;
    const index e = 8;
    const index length = 300;
    const float scale = numerics::attention_scale(e);
    for (const float bad : {numerics::not_a_number, numerics::infinity, -numerics::infinity}) {
        for (const index at : {index{0}, index{5}, index{256}, index{297}}) {
            noise random(7);
            layer_fixture f(ops, 1, e, length, random, content::plain);
            matrix key(1, e);
            key.fill(random, content::plain);
            key.row(0)[3] = bad;
            f.keys.row(at)[3] = bad;
            std::copy_n(key.row(0), 3, f.keys.row(at));
            std::copy_n(key.row(0) + 4, 4, f.keys.row(at) + 4);
            device_matrix k(ops, key);
            matrix value(1, e);
            std::copy_n(f.values.row(at), e, value.row(0));
            device_matrix v(ops, value);
            ops.write(f.cache, 1, at, k.view(), v.view());
            matrix q(4, e);
            q.fill(random, content::plain);
            device_matrix queries(ops, q);
            device_matrix out(ops, 4, e);
            const dflash::mask_rule mask{.causal = true};
            ops.attend({queries.view(), f.cache.layer(1, length), out.view(), 1, 1, e, length - 4, mask, scale});
            CAPTURE(bad);
            CAPTURE(at);
            CHECK(differing(out.host(ops), expected(q, f, 1, 1, e, length - 4, mask, scale)) == 0);
        }
    }
}

TEST_CASE("crop forgets, reserve keeps every bit") {
    const dflash::cuda::exact ops;
    noise random(6);
    layer_fixture f(ops, 2, 20, 70, random, content::plain);
    f.cache.extend(70);
    f.cache.reserve(300);
    CHECK(f.cache.capacity() == 300);
    CHECK(f.cache.length() == 70);
    f.cache.crop(41);
    f.length = 41;
    matrix q(3, 80);
    q.fill(random, content::plain);
    device_matrix queries(ops, q);
    device_matrix out(ops, 3, 80);
    const float scale = numerics::attention_scale(20);
    ops.attend({queries.view(), f.cache.layer(1, 41), out.view(), 4, 2, 20, 38, {.causal = true}, scale});
    CHECK(differing(out.host(ops), expected(q, f, 4, 2, 20, 38, {.causal = true}, scale)) == 0);
}

}  // namespace cuda_tests
