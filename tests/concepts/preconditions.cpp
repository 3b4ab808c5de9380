// What a backend's operations ask of their arguments: each number may be wrong alone, and the sentence names it.
#include <dflash/concepts/preconditions.hpp>

#include <doctest/doctest.h>

#include <string>

namespace dflash::test {
namespace {

struct shape {
    index rows_ = 0;
    index cols_ = 0;
    [[nodiscard]] index rows() const { return rows_; }
    [[nodiscard]] index cols() const { return cols_; }
};

struct layer {
    index length_ = 6;
    index kv_heads_ = 2;
    index head_dim_ = 4;
    [[nodiscard]] index length() const { return length_; }
    [[nodiscard]] index kv_heads() const { return kv_heads_; }
    [[nodiscard]] index head_dim() const { return head_dim_; }
};

struct call {
    shape queries{3, 16};
    layer cache;
    shape out{3, 16};
    index heads = 4;
    index kv_heads = 2;
    index head_dim = 4;
    index position = 3;
    mask_rule mask;
};

/// What the contract says, or nothing.
template <class Check>
std::string said(Check check) {
    try {
        check();
    } catch (const contract_error& failure) {
        return failure.what();
    }
    return {};
}

bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("products and rows of a table") {
    CHECK(said([] { expected::linear(shape{2, 3}, shape{5, 3}, shape{2, 5}); }).empty());
    for (const shape& y : {shape{1, 5}, shape{2, 4}}) {
        CHECK(contains(said([&] { expected::linear(shape{2, 3}, shape{5, 3}, y); }), "x (2, 3) and weights (5, 3)"));
    }
    CHECK(contains(said([] { expected::linear(shape{2, 3}, shape{5, 4}, shape{2, 5}); }), "do not give y (2, 5)"));
    CHECK(said([] { expected::gather(shape{9, 3}, 2, shape{2, 3}); }).empty());
    for (const shape& y : {shape{1, 3}, shape{2, 4}}) {
        CHECK(contains(said([&] { expected::gather(shape{9, 3}, 2, y); }), "needs (2, 3)"));
    }
}

TEST_CASE("norms, rotation and element by element") {
    CHECK(said([] { expected::rms_norm(shape{2, 8}, 8, shape{2, 8}); }).empty());
    CHECK(contains(said([] { expected::rms_norm(shape{2, 8}, 7, shape{2, 8}); }), "7 weights"));
    CHECK(contains(said([] { expected::rms_norm(shape{2, 8}, 8, shape{2, 7}); }), "y (2, 7)"));
    CHECK(contains(said([] { expected::rms_norm(shape{2, 8}, 8, shape{3, 8}); }), "y (3, 8)"));

    CHECK(said([] { expected::rms_norm_heads(shape{2, 8}, 4, 4); }).empty());
    CHECK(contains(said([] { expected::rms_norm_heads(shape{2, 8}, 3, 4); }), "3 weights, needs heads of 4"));
    CHECK(contains(said([] { expected::rms_norm_heads(shape{2, 8}, 3, 3); }), "8 columns"));
    CHECK(contains(said([] { expected::rms_norm_heads(shape{2, 8}, 0, 0); }), "needs heads of 0"));

    const numerics::rope_table table(numerics::rope_parameters(), 4, 10);
    CHECK(said([&] { expected::rope(shape{2, 8}, 4, table, 8); }).empty());
    CHECK(contains(said([&] { expected::rope(shape{2, 8}, 2, table, 8); }), "heads of 4, needs heads of 2"));
    CHECK(contains(said([&] { expected::rope(shape{2, 6}, 4, table, 8); }), "6 columns"));
    CHECK(contains(said([&] { expected::rope(shape{2, 8}, 4, table, 9); }), "positions 9 + 2 are outside 10"));
    CHECK(contains(said([&] { expected::rope(shape{2, 8}, 4, table, -1); }), "positions -1"));

    CHECK(said([] { expected::silu_mul(shape{2, 8}, shape{2, 4}); }).empty());
    CHECK(
        contains(said([] { expected::silu_mul(shape{2, 8}, shape{2, 5}); }), "gate_up (2, 8) does not give y (2, 5)"));
    CHECK(contains(said([] { expected::silu_mul(shape{2, 8}, shape{3, 4}); }), "y (3, 4)"));

    CHECK(said([] { expected::same_shape("add", shape{2, 8}, shape{2, 8}); }).empty());
    CHECK(contains(said([] { expected::same_shape("add", shape{2, 8}, shape{2, 7}); }), "add: (2, 8) and (2, 7)"));
    CHECK(contains(said([] { expected::same_shape("copy", shape{2, 8}, shape{1, 8}); }), "copy: (2, 8) and (1, 8)"));
}

TEST_CASE("attention: heads, shapes, and a key for every row") {
    index seen = 0;
    CHECK(said([&] { seen = expected::attend(call{}); }).empty());
    CHECK(seen == 4 + 5 + 6);
    const auto with = [](auto change) {
        call c;
        change(c);
        return said([&] { static_cast<void>(expected::attend(c)); });
    };
    CHECK(contains(with([](call& c) { c.heads = 3; }), "3 heads cannot share 2 KV heads"));
    CHECK(contains(with([](call& c) { c.heads = 0; }), "0 heads"));
    CHECK(contains(with([](call& c) { c.kv_heads = 0; }), "0 KV heads"));
    CHECK(contains(with([](call& c) { c.cache.kv_heads_ = 1; }), "the cache has 1 KV heads of 4, needs 2 of 4"));
    CHECK(contains(with([](call& c) { c.cache.head_dim_ = 8; }), "the cache has 2 KV heads of 8, needs 2 of 4"));
    CHECK(contains(with([](call& c) { c.queries.cols_ = 12; }), "queries (3, 12)"));
    CHECK(contains(with([](call& c) { c.out.cols_ = 12; }), "out (3, 12)"));
    CHECK(contains(with([](call& c) { c.out.rows_ = 2; }), "out (2, 16)"));
    CHECK(contains(with([](call& c) {
                       c.mask.window = 2;
                       c.position = 6;
                   }),
                   "the query at position 7 sees no key of 6"));
    CHECK(contains(with([](call& c) { c.cache.length_ = 0; }), "sees no key of 0"));
    CHECK(with([](call& c) { c.queries.rows_ = c.out.rows_ = 0; }).empty());
}

}  // namespace
}  // namespace dflash::test
