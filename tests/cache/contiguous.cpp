// The contiguous cache against plain arrays, around the edges of key panels, with poison in every row that may not
// count.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <tuple>

#include <dflash/cache/contiguous.hpp>
#include <dflash/concepts/cache.hpp>
#include <dflash/testing/model.hpp>
#include <support/toy_models.hpp>

namespace dflash::test {

static_assert(kv_cache<contiguous_cache<float>>);
static_assert(kv_cache_check<poison_cache>());

namespace {

/// The same content as plain maps.
struct plain {
    std::map<std::tuple<index, index, index, index>, float> keys;
    std::map<std::tuple<index, index, index, index>, float> values;
};

template <class Cache>
void write_row(Cache& cache, plain& expected, testing::dice& die, index position) {
    const index width = cache.kv_heads() * cache.head_dim();
    for (index layer = 0; layer < cache.layers(); ++layer) {
        std::vector<float> key(static_cast<std::size_t>(width));
        std::vector<float> value(static_cast<std::size_t>(width));
        for (index i = 0; i < width; ++i) {
            key[static_cast<std::size_t>(i)] = die.fraction();
            value[static_cast<std::size_t>(i)] = die.fraction();
            const std::tuple at{layer, i / cache.head_dim(), position, i % cache.head_dim()};
            expected.keys[at] = key[static_cast<std::size_t>(i)];
            expected.values[at] = value[static_cast<std::size_t>(i)];
        }
        cache.write(layer, position, {key.data(), 1, width}, {value.data(), 1, width});
    }
}

template <class Cache>
bool holds(const Cache& cache, plain& expected) {
    for (index layer = 0; layer < cache.layers(); ++layer) {
        const contiguous_layer<float> rows = cache.layer(layer, cache.length());
        for (index head = 0; head < cache.kv_heads(); ++head) {
            for (index p = 0; p < cache.length(); ++p) {
                for (index d = 0; d < cache.head_dim(); ++d) {
                    const std::tuple at{layer, head, p, d};
                    if (rows.key(head, p, d) != expected.keys[at] || rows.value(head, p, d) != expected.values[at] ||
                        rows.key_panels(head)[(p / 16 * cache.head_dim() + d) * 16 + p % 16] != expected.keys[at] ||
                        rows.value_rows(head)[p * cache.head_dim() + d] != expected.values[at]) {
                        return false;
                    }
                }
            }
        }
    }
    return true;
}

}  // namespace

TEST_CASE_TEMPLATE("write, extend, crop and reserve equal plain arrays", Cache, contiguous_cache<float>, poison_cache) {
    for (const index capacity : {1, 2, 15, 16, 17, 31, 32, 33, 48}) {
        for (const auto& [layers, heads, dim] : {std::tuple<index, index, index>{1, 1, 1}, {2, 3, 5}, {1, 2, 16}}) {
            testing::dice die(static_cast<std::uint64_t>(capacity * 10 + dim));
            Cache cache(layers, heads, dim, capacity);
            plain expected;
            CHECK(cache.length() == 0);
            CHECK(cache.capacity() == capacity);
            for (int round = 0; round < 12; ++round) {
                const index room = cache.capacity() - cache.length();
                const index rows = die.below(room + 1);
                for (index i = 0; i < rows; ++i) {
                    write_row(cache, expected, die, cache.length() + i);
                }
                cache.extend(cache.length() + rows);
                REQUIRE(holds(cache, expected));
                cache.crop(round % 4 == 3 ? cache.length() : die.below(cache.length() + 1));
                REQUIRE(holds(cache, expected));
                if (round % 3 == 2) {
                    const index before = cache.capacity();
                    cache.reserve(before + die.below(20));
                    cache.reserve(1);
                    CHECK(cache.capacity() >= before);
                    REQUIRE(holds(cache, expected));
                }
            }
            Cache moved = std::move(cache);
            CHECK(holds(moved, expected));
        }
    }
}

TEST_CASE("rows of several positions, strided, land where single rows do") {
    for (const index first : {0, 1, 14, 15, 16, 17}) {
        for (const index rows : {1, 2, 15, 16, 17, 20}) {
            contiguous_cache<float> together(1, 2, 3, 40);
            contiguous_cache<float> singly(1, 2, 3, 40);
            std::vector<float> memory(static_cast<std::size_t>(rows * 9));
            testing::dice die(static_cast<std::uint64_t>(first + 100 * rows));
            for (float& x : memory) {
                x = die.fraction();
            }
            const matrix_view<const float> keys(memory.data(), rows, 6, 9);
            const matrix_view<const float> values(memory.data() + 2, rows, 6, 9);
            together.write(0, first, keys, values);
            together.extend(first + rows);
            for (index i = 0; i < rows; ++i) {
                singly.write(0, first + i, keys.rows(i, 1), values.rows(i, 1));
            }
            singly.extend(first + rows);
            bool same = true;
            const auto a = together.layer(0, first + rows);
            const auto b = singly.layer(0, first + rows);
            for (index p = first; p < first + rows; ++p) {
                for (index i = 0; i < 6; ++i) {
                    same = same && a.key(i / 3, p, i % 3) == b.key(i / 3, p, i % 3) &&
                           a.key(i / 3, p, i % 3) == keys(p - first, i) &&
                           a.value(i / 3, p, i % 3) == b.value(i / 3, p, i % 3) &&
                           a.value(i / 3, p, i % 3) == values(p - first, i);
                }
            }
            CHECK(same);
        }
    }
}

TEST_CASE("poison stands in rows nobody wrote and in rows that were rolled back, and nowhere else") {
    for (const index n : {1, 15, 16, 17, 33}) {
        poison_cache cache(1, 1, 1, 40);
        plain expected;
        testing::dice die(9);
        for (index p = 0; p < n; ++p) {
            write_row(cache, expected, die, p);
        }
        cache.extend(n);
        for (index kept = n; kept >= 0; --kept) {
            cache.crop(kept);
            const auto rows = cache.layer(0, 40);
            for (index p = 0; p < 40; ++p) {
                CHECK(std::isnan(rows.key(0, p, 0)) == (p >= kept));
                CHECK(std::isnan(rows.value(0, p, 0)) == (p >= kept));
            }
        }
    }
}

TEST_CASE("misuse is named in checked builds") {
    contiguous_cache<float> cache(2, 1, 2, 17);
    const float row[2] = {};
    const matrix_view<const float> one(row, 1, 2);
    CHECK_THROWS_AS(cache.crop(1), contract_error);
    CHECK_THROWS_AS(cache.crop(-1), contract_error);
    CHECK_THROWS_AS(cache.extend(18), contract_error);
    CHECK_THROWS_AS(cache.write(0, 17, one, one), contract_error);
    CHECK_THROWS_AS(cache.write(0, -1, one, one), contract_error);
    CHECK_THROWS_AS(cache.write(2, 0, one, one), contract_error);
    CHECK_THROWS_AS(cache.write(0, 0, one.columns(0, 1), one), contract_error);
    cache.write(1, 16, one, one);
    cache.extend(17);
    CHECK_THROWS_AS(cache.extend(16), contract_error);
}

TEST_CASE("a model on a poisoned cache keeps the axioms of models and caches") {
    context_model model;
    const testing::report found = testing::check_model_conformance(model, {.seed = 3, .cases = 20, .longest = 40});
    CHECK_MESSAGE(found.passed(), found.text());
}

// Sanitizers keep a shadow of all memory; these address spaces are too large for them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("offsets beyond 32 bits") {
    try {
        contiguous_cache<unsigned char> cache(1, 1, 32768, 70016);
        const std::vector<unsigned char> row(32768, 7);
        const matrix_view<const unsigned char> one(row.data(), 1, 32768);
        cache.write(0, 70000, one, one);
        const auto layer = cache.layer(0, 70016);
        CHECK(layer.value_rows(0) + index{70000} * 32768 == layer.value_rows(0) + 2293760000);
        CHECK(layer.value(0, 70000, 32767) == 7);
        CHECK(layer.key(0, 70000, 32767) == 7);
        CHECK(layer.value(0, 69999, 32767) == 0);
        buffer<unsigned char> logits(index{20000} * 151936);
        const matrix_view<unsigned char> rows = logits.matrix(20000, 151936);
        rows(19999, 151935) = 9;
        CHECK(logits[3038719999] == 9);
        CHECK(rows.row(19999).data() - logits.data() == 3038568064);
        CHECK(rows.rows(19998, 2)(1, 151935) == 9);
    } catch (const backend_error&) {
        MESSAGE("skipped: this machine does not lend 8 GB of address space");
    }
}
#endif

}  // namespace dflash::test
