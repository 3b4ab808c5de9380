// Target and draft transformers against the kinds of fault that were reported for such code: layer numbering, masks,
// GQA maps, positions, injection, shapes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support/batched_equals_serial.hpp"
#include "support/property.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using target = target_transformer<cpu::exact>;
using draft = draft_transformer<cpu::exact>;

/// Owns f32 tensors and hands out views.
class tensors {
public:
    tensor_view filled(index rows, index cols, float value) {
        return of(std::vector<float>(static_cast<std::size_t>(rows * cols), value), rows, cols);
    }
    tensor_view of(const std::vector<float>& values, index rows, index cols) {
        std::vector<std::byte>& bytes = store_.emplace_back(values.size() * 4);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return {dtype::f32, bytes.data(), rows, cols};
    }

private:
    std::deque<std::vector<std::byte>> store_;
};

/// Four layers over an embedding of ones; layer i adds 10^(i+1) to every channel through the bias of o_proj.
struct staircase {
    staircase() {
        shape.hidden_size = 8;
        shape.layers = 4;
        shape.heads = shape.kv_heads = 1;
        shape.head_dim = 4;
        shape.intermediate_size = 4;
        shape.vocab_size = 5;
        shape.max_positions = 32;
        shape.attention_bias = true;
        shape.tied_head = true;
        shape.masks.resize(4);
        weights.embedding = memory.filled(5, 8, 1);
        weights.norm = memory.filled(1, 8, 1);
        float step = 1;
        for (index l = 0; l < 4; ++l) {
            step *= 10;
            layer_weights w;
            w.input_norm = w.post_norm = memory.filled(1, 8, 1);
            w.q = w.k = w.v = memory.filled(4, 8, 0);
            w.q_bias = w.k_bias = w.v_bias = memory.filled(1, 4, 0);
            w.o = memory.filled(8, 4, 0);
            w.o_bias = memory.filled(1, 8, step);
            w.q_norm = w.k_norm = memory.filled(1, 4, 1);
            w.gate = w.up = memory.filled(4, 8, 0);
            w.down = memory.filled(8, 4, 0);
            weights.layers.push_back(w);
        }
    }
    tensors memory;
    target_shape shape;
    target_weights weights;
};

std::vector<float> features_of(target& model, std::span<const token_id> tokens) {
    auto cache = model.make_cache(32);
    std::vector<float> out(tokens.size() * static_cast<std::size_t>(model.feature_size()));
    model.forward(tokens, cache, {{}, matrix_view<float>(out.data(), size_of(tokens), model.feature_size())});
    return out;
}

TEST_CASE("a tap is the output of its layer, in the given order, repeats allowed") {
    const staircase toy;
    const std::vector<token_id> tokens = {1, 2, 3};
    const auto columns = [&](const std::vector<index>& taps) {
        target model(toy.shape, toy.weights, taps);
        const std::vector<float> rows = features_of(model, tokens);
        std::vector<float> first;
        for (std::size_t t = 0; t < taps.size(); ++t) {
            first.push_back(rows[t * 8]);
            for (std::size_t r = 0; r < tokens.size(); ++r) {
                for (std::size_t c = 0; c < 8; ++c) {
                    CHECK(rows[(r * taps.size() + t) * 8 + c] == first.back());
                }
            }
        }
        return first;
    };
    CHECK(columns({0, 2}) == std::vector<float>{11, 1111});
    CHECK(columns({2, 0}) == std::vector<float>{1111, 11});
    CHECK(columns({1, 1, 0}) == std::vector<float>{111, 111, 11});
    // The last entry of the list of hidden states is the one after the final norm: ones here.
    CHECK(columns({3})[0] == doctest::Approx(1.0));
    CHECK(columns({3, 2})[1] == 1111);
    for (const index bad : {index{-1}, index{4}}) {
        const std::vector<index> taps = {0, bad};
        CHECK_THROWS_WITH_AS(target(toy.shape, toy.weights, taps), doctest::Contains("target_layer_ids"), config_error);
    }
}

TEST_CASE("a tap on the last layer is there for every row, whatever logits are asked for") {
    const staircase toy;
    const std::vector<index> taps = {3};
    target model(toy.shape, toy.weights, taps);
    const std::vector<token_id> tokens = {0, 1, 2, 3};
    for (index rows = 0; rows <= 4; ++rows) {
        auto cache = model.make_cache(8);
        buffer<float> logits(4 * 5);
        buffer<float> features(4 * 8);
        model.forward(tokens, cache, {logits.matrix(rows, 5), features.matrix(4, 8)});
        for (index i = 0; i < 32; ++i) {
            CHECK(features[i] == doctest::Approx(1.0));
        }
    }
}

TEST_CASE("head() has the bits of the model's own logits, embed() those of its table") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        const std::vector<index> taps = {pair.target.layers - 1};  // the rows after the final norm
        target model(pair.target, pair.target_tensors, taps);
        trace out;
        auto cache = model.make_cache(8);
        const std::vector<token_id> tokens = {0, 1, 2, 3, 4, 4};
        run_forward(model, cache, tokens, out);
        for (std::size_t r = 0; r < tokens.size(); ++r) {
            std::vector<float> logits(out.logits[r].size());
            model.head(matrix_view<const float>(out.features[r].data(), 1, model.hidden_size()),
                       matrix_view<float>(logits.data(), 1, model.vocab_size()));
            CHECK(!first_difference("logits", out.logits[r], logits, static_cast<index>(r)));
        }
        buffer<float> rows(6 * model.hidden_size());
        model.embed(tokens, rows.matrix(6, model.hidden_size()));
        for (index r = 0; r < 6; ++r) {
            for (index c = 0; c < model.hidden_size(); ++c) {
                CHECK(rows[r * model.hidden_size() + c] ==
                      pair.target_tensors.embedding.element(tokens[static_cast<std::size_t>(r)], c));
            }
        }
    }
}

TEST_CASE("a tied head is a head that equals the embedding, bit for bit; another head is another model") {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        random_pair copy;
        make_random_pair(copy, seed);
        random_pair stranger;
        make_random_pair(stranger, seed);
        pair.target.tied_head = true;
        pair.target_tensors.head = {};
        copy.target.tied_head = false;
        copy.target_tensors.head = copy.target_tensors.embedding;
        copy.target_tensors.embedding = pair.target_tensors.embedding;  // so that the head is memory of its own
        tensors memory;
        stranger.target.tied_head = false;
        stranger.target_tensors.head = memory.filled(pair.target.vocab_size, pair.target.hidden_size, 0.25F);
        const std::vector<token_id> tokens = {1, 2, 3, 4, 0, 1, 1, 2};
        const auto logits_of = [&](const random_pair& from) {
            target model(from.target, from.target_tensors, from.draft.taps);
            auto cache = model.make_cache(16);
            trace out;
            run_forward(model, cache, tokens, out);
            return out;
        };
        const trace tied = logits_of(pair);
        const auto difference = first_difference(tied, logits_of(copy));
        REQUIRE_MESSAGE(!difference, difference.value_or(""));
        CHECK(first_difference(tied, logits_of(stranger)));
    }
}

/// Overwrites tensors that have been packed.
class spoiler final : public packed_observer {
public:
    explicit spoiler(std::vector<const std::byte*>& told) : told_(told) {}
    void packed(const tensor_view& t) const override {
        told_.push_back(t.data);
        // NaN in every type
        std::memset(const_cast<std::byte*>(t.data), 0xFF, static_cast<std::size_t>(t.rows * t.cols * size_of(t.type)));
    }

private:
    std::vector<const std::byte*>& told_;
};

TEST_CASE("a tensor that is said to be packed is not read any more, and every matrix is said to be") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        random_pair spoiled;
        make_random_pair(spoiled, seed);
        std::vector<const std::byte*> told;
        const auto spoil = std::make_shared<spoiler>(told);
        spoiled.target_tensors.on_packed = spoil;
        spoiled.draft_tensors.on_packed = spoil;

        target first(pair.target, pair.target_tensors, pair.draft.taps);
        target second(spoiled.target, spoiled.target_tensors, spoiled.draft.taps);
        draft first_draft(pair.draft, pair.draft_tensors);
        draft second_draft(spoiled.draft, spoiled.draft_tensors);

        std::vector<const std::byte*> matrices = {spoiled.target_tensors.embedding.data, spoiled.draft_tensors.fc.data};
        if (!spoiled.target.tied_head) {
            matrices.push_back(spoiled.target_tensors.head.data);
        }
        for (const auto* layers : {&spoiled.target_tensors.layers, &spoiled.draft_tensors.layers}) {
            for (const layer_weights& l : *layers) {
                matrices.insert(matrices.end(),
                                {l.q.data, l.k.data, l.v.data, l.o.data, l.gate.data, l.up.data, l.down.data});
            }
        }
        std::sort(told.begin(), told.end());
        std::sort(matrices.begin(), matrices.end());
        CHECK(told == matrices);

        const std::vector<token_id> tokens = {0, 1, 2, 3, 4};
        trace a;
        trace b;
        auto cache_a = first.make_cache(8);
        auto cache_b = second.make_cache(8);
        run_forward(first, cache_a, tokens, a);
        run_forward(second, cache_b, tokens, b);
        auto context_a = first_draft.make_cache(8);
        auto context_b = second_draft.make_cache(8);
        buffer<float> hidden_a(2 * first.hidden_size());
        buffer<float> hidden_b(2 * first.hidden_size());
        for (std::size_t r = 0; r < tokens.size(); ++r) {
            CHECK(!first_difference("logits", a.logits[r], b.logits[r], static_cast<index>(r)));
            first_draft.inject(matrix_view<const float>(a.features[r].data(), 1, first.feature_size()), context_a);
            second_draft.inject(matrix_view<const float>(b.features[r].data(), 1, first.feature_size()), context_b);
        }
        buffer<float> block(2 * first.hidden_size());
        first.embed(std::vector<token_id>{4, 0}, block.matrix(2, first.hidden_size()));
        first_draft.forward(block.matrix(2, first.hidden_size()), context_a, hidden_a.matrix(2, first.hidden_size()));
        second.embed(std::vector<token_id>{4, 0}, block.matrix(2, first.hidden_size()));
        second_draft.forward(block.matrix(2, first.hidden_size()), context_b, hidden_b.matrix(2, first.hidden_size()));
        for (index i = 0; i < hidden_a.size(); ++i) {
            CHECK(same_bits(hidden_a[i], hidden_b[i]));
        }
    }
}

TEST_CASE("asking for fewer logit rows gives the last ones") {
    random_pair pair;
    make_random_pair(pair, 7);
    target model(pair.target, pair.target_tensors, pair.draft.taps);
    const std::vector<token_id> tokens = {1, 2, 3, 4, 0};
    auto all_cache = model.make_cache(8);
    buffer<float> all(5 * model.vocab_size());
    model.forward(tokens, all_cache, {all.matrix(5, model.vocab_size()), {}});
    for (index rows = 0; rows < 5; ++rows) {
        auto cache = model.make_cache(8);
        buffer<float> some(5 * model.vocab_size());
        model.forward(tokens, cache, {some.matrix(rows, model.vocab_size()), {}});
        for (index i = 0; i < rows * model.vocab_size(); ++i) {
            CHECK(same_bits(some[i], all[(5 - rows) * model.vocab_size() + i]));
        }
    }
}

TEST_CASE("grouped queries equal a model whose KV heads are physically repeated, bit for bit") {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        target_shape wide = pair.target;
        wide.kv_heads = wide.heads;
        target_weights repeated = pair.target_tensors;
        tensors memory;
        const index group = pair.target.heads / pair.target.kv_heads;
        const index e = pair.target.head_dim;
        const auto repeat = [&](const tensor_view& t, bool bias) {
            if (t.empty()) {
                return t;
            }
            std::vector<float> values;
            for (index h = 0; h < wide.heads; ++h) {
                for (index r = 0; r < e; ++r) {
                    for (index c = 0; c < (bias ? 1 : t.cols); ++c) {
                        const index row = h / group * e + r;
                        values.push_back(bias ? t.element(0, row) : t.element(row, c));
                    }
                }
            }
            return bias ? memory.of(values, 1, wide.heads * e) : memory.of(values, wide.heads * e, t.cols);
        };
        for (layer_weights& w : repeated.layers) {
            w.k = repeat(w.k, false);
            w.v = repeat(w.v, false);
            w.k_bias = repeat(w.k_bias, true);
            w.v_bias = repeat(w.v_bias, true);
        }
        target a(pair.target, pair.target_tensors, pair.draft.taps);
        target b(wide, repeated, pair.draft.taps);
        trace first;
        trace second;
        auto cache_a = a.make_cache(16);
        auto cache_b = b.make_cache(16);
        const std::vector<token_id> tokens = {1, 2, 3, 4, 0, 1, 1, 2};
        run_forward(a, cache_a, tokens, first);
        run_forward(b, cache_b, tokens, second);
        const auto difference = first_difference(first, second);  // caches differ in shape and stay empty here
        REQUIRE_MESSAGE(!difference, difference.value_or(""));
    }
}

TEST_CASE("a window as long as the sequence is no window, bit for bit") {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        const std::vector<token_id> tokens = {1, 2, 3, 4, 0, 1, 1, 2, 3, 3};
        trace traces[2];
        for (int wide = 0; wide < 2; ++wide) {
            target_shape shape = pair.target;
            for (mask_rule& mask : shape.masks) {
                mask.window = wide != 0 ? size_of(std::span(tokens)) : 0;
            }
            target model(shape, pair.target_tensors, pair.draft.taps);
            auto cache = model.make_cache(16);
            run_forward(model, cache, tokens, traces[wide]);
            traces[wide].cached = cached_rows(cache);
        }
        REQUIRE(!first_difference(traces[0], traces[1]));
    }
}

TEST_CASE("which keys a query sees") {
    const auto keys = [](mask_rule mask, index query, index length) {
        const key_range range = mask.keys(query, length);
        std::vector<index> seen;
        for (index k = 0; k < length; ++k) {
            CHECK(mask.visible(query, k) == (k >= range.first && k < range.last));
            if (mask.visible(query, k)) {
                seen.push_back(k);
            }
        }
        return seen;
    };
    // Context rows 0..9, block at 10..13, window 4, the query at 11.
    CHECK(keys({.causal = false, .window = 0}, 11, 14).size() == 14);
    CHECK(keys({.causal = true, .window = 4}, 11, 14) == std::vector<index>{8, 9, 10, 11});
    CHECK(keys({.causal = false, .window = 4}, 11, 14) == std::vector<index>{8, 9, 10, 11, 12, 13});
    CHECK(keys({.causal = false, .window = 2}, 11, 14) == std::vector<index>{10, 11, 12});
    for (index query = 0; query < 20; ++query) {
        for (index window = 0; window < 22; ++window) {
            keys({.causal = true, .window = window}, query, 20);
            keys({.causal = false, .window = window}, query, 20);
        }
    }
}

/// A draft with `context` committed rows of features drawn from a seed.
struct drafting {
    drafting(const random_pair& pair, const draft_shape& shape, index context, std::uint64_t seed = 3)
        : model(shape, pair.draft_tensors), cache(model.make_cache(context + 32)) {
        random_source random(seed);
        features.resize(static_cast<std::size_t>(context * model.feature_size()));
        for (float& x : features) {
            x = random.normal();
        }
        rows = context;
    }
    void inject(index chunk = 1000) {
        for (index first = 0; first < rows; first += chunk) {
            const index count = (std::min)(chunk, rows - first);
            model.inject(
                matrix_view<const float>(features.data() + first * model.feature_size(), count, model.feature_size()),
                cache);
        }
    }
    std::vector<float> forward(const std::vector<float>& block) {
        const index b = size_of(std::span(block)) / model.hidden_size();
        std::vector<float> out(block.size());
        model.forward(matrix_view<const float>(block.data(), b, model.hidden_size()), cache,
                      matrix_view<float>(out.data(), b, model.hidden_size()));
        return out;
    }
    draft model;
    draft::cache_type cache;
    std::vector<float> features;
    index rows = 0;
};

std::vector<float> random_block(index b, index d, std::uint64_t seed) {
    random_source random(seed);
    std::vector<float> block(static_cast<std::size_t>(b * d));
    for (float& x : block) {
        x = random.normal();
    }
    return block;
}

bool row_changed(const std::vector<float>& a, const std::vector<float>& b, index row, index d) {
    for (index c = 0; c < d; ++c) {
        if (!same_bits(a[static_cast<std::size_t>(row * d + c)], b[static_cast<std::size_t>(row * d + c)])) {
            return true;
        }
    }
    return false;
}

TEST_CASE("draft: full layers see the whole block and every context row; sliding ones what their rule says") {
    random_pair pair;
    make_random_pair(pair, 11);
    const index d = pair.draft.hidden_size;
    const index context = 10;
    const index b = 4;
    const std::vector<mask_rule> rules = {{.causal = false, .window = 0},
                                          {.causal = true, .window = 0},
                                          {.causal = true, .window = 4},
                                          {.causal = false, .window = 4},
                                          {.causal = false, .window = 2}};
    for (const mask_rule rule : rules) {
        draft_shape shape = pair.draft;
        shape.layers = 1;
        shape.masks = {rule};
        random_pair one;
        make_random_pair(one, 11);
        one.draft_tensors.layers.resize(1);
        drafting base(one, shape, context);
        base.inject();
        const std::vector<float> block = random_block(b, d, 5);
        const std::vector<float> expected = base.forward(block);
        CHECK(base.cache.length() == context);
        for (index row = 0; row < b; ++row) {
            for (index key = 0; key < context + b; ++key) {
                drafting other(one, shape, context);
                std::vector<float> changed = block;
                if (key < context) {
                    for (index c = 0; c < other.model.feature_size(); ++c) {
                        float& x = other.features[static_cast<std::size_t>(key * other.model.feature_size() + c)];
                        x = -x + 0.5F;
                    }
                } else {
                    for (index c = 0; c < d; ++c) {
                        float& x = changed[static_cast<std::size_t>((key - context) * d + c)];
                        x = -x + 0.5F;
                    }
                }
                other.inject();
                INFO("row " << row << ", key " << key << ", causal " << rule.causal << ", window " << rule.window);
                CHECK(row_changed(expected, other.forward(changed), row, d) == rule.visible(context + row, key));
            }
        }
    }
}

TEST_CASE("draft: context K and V have the same bits however the features were handed over, and are computed once") {
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        drafting whole(pair, pair.draft, 23);
        whole.inject();
        const std::vector<float> block = random_block(5, pair.draft.hidden_size, seed);
        const std::vector<float> expected = whole.forward(block);
        for (const index chunk : {1, 2, 7, 22}) {
            drafting parts(pair, pair.draft, 23);
            parts.inject(chunk);
            parts.forward(block);  // a block in between must leave no trace
            CHECK(cached_rows(parts.cache) == cached_rows(whole.cache));
            CHECK(parts.forward(block) == expected);
        }
        // Cropping and giving the same rows again is the same, too.
        whole.cache.crop(9);
        whole.model.inject(matrix_view<const float>(whole.features.data() + 9 * whole.model.feature_size(), 14,
                                                    whole.model.feature_size()),
                           whole.cache);
        CHECK(whole.forward(block) == expected);
    }
}

TEST_CASE("draft: only differences of positions count") {
    index same = 0;
    index slots = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        target model(pair.target, pair.target_tensors, pair.draft.taps);
        const std::vector<float> block = random_block(6, pair.draft.hidden_size, seed);
        const index v = model.vocab_size();
        std::vector<std::vector<index>> best(2);
        for (int shifted = 0; shifted < 2; ++shifted) {
            drafting d(pair, pair.draft, 10);
            if (shifted != 0) {
                const index half = pair.draft.head_dim / 2;
                const numerics::rope_table far(pair.draft.rope, pair.draft.head_dim, pair.draft.max_positions + 1000);
                const index count = pair.draft.max_positions * half;
                d.model.set_rope_table(numerics::rope_table({far.cos(1000), far.cos(1000) + count},
                                                            {far.sin(1000), far.sin(1000) + count}, pair.draft.head_dim,
                                                            pair.draft.max_positions));
            }
            d.inject();
            const std::vector<float> hidden = d.forward(block);
            buffer<float> logits(6 * v);
            model.head(matrix_view<const float>(hidden.data(), 6, model.hidden_size()), logits.matrix(6, v));
            for (index r = 0; r < 6; ++r) {
                best[static_cast<std::size_t>(shifted)].push_back(numerics::argmax(logits.data() + r * v, v));
            }
        }
        for (std::size_t r = 0; r < 6; ++r) {
            same += best[0][r] == best[1][r] ? 1 : 0;
            ++slots;
        }
    }
    // Rounding of the angles may decide a near tie; anything but a handful would be a position fault.
    CHECK(same >= slots - 4);
}

/// Drafts of a pair whose embedding row `row` is filled with `value` (row < 0: left as it is).
std::vector<token_id> drafts_with_row(const random_pair& pair, index row, float value) {
    tensors memory;
    target_shape shape = pair.target;
    target_weights weights = pair.target_tensors;
    if (shape.tied_head) {  // so that only the embedding changes, not the head
        weights.head = weights.embedding;
        shape.tied_head = false;
    }
    std::vector<float> table;
    for (index r = 0; r < shape.vocab_size; ++r) {
        for (index c = 0; c < shape.hidden_size; ++c) {
            table.push_back(r == row ? value : weights.embedding.element(r, c));
        }
    }
    weights.embedding = memory.of(table, shape.vocab_size, shape.hidden_size);
    target model(shape, weights, pair.draft.taps);
    draft small(pair.draft, pair.draft_tensors);
    dflash_drafter<draft, target> drafter(small, model);
    std::vector<token_id> committed;
    for (token_id t = 0; static_cast<index>(committed.size()) < 4; ++t) {
        if (t != pair.draft.mask_token && t != row) {
            committed.push_back(t);
        }
    }
    random_source random(9);
    std::vector<float> features(static_cast<std::size_t>(3 * model.feature_size()));
    for (float& x : features) {
        x = random.normal();
    }
    drafter.commit(std::span(committed).first(3), matrix_view<const float>(features.data(), 3, model.feature_size()));
    std::vector<token_id> out(7);
    draft_output<> output{.tokens = out, .count = 0, .law = {}};
    drafter.propose({.committed = committed, .block = 8, .noise = {}}, output);
    CHECK(output.count == 7);
    CHECK(drafter.context_length() == 3);
    return out;
}

TEST_CASE("draft: the slots hold the mask token's embedding and no other") {
    index changed_by_mask = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        const index unused = pair.draft.mask_token == pair.target.vocab_size - 1 ? pair.target.vocab_size - 2
                                                                                 : pair.target.vocab_size - 1;
        if (pair.target.vocab_size < 7) {
            continue;
        }
        const std::vector<token_id> drafts = drafts_with_row(pair, -1, 0);
        CHECK(drafts_with_row(pair, unused, 1000) == drafts);
        changed_by_mask += drafts_with_row(pair, pair.draft.mask_token, 1000) != drafts ? 1 : 0;
    }
    CHECK(changed_by_mask > 20);
}

TEST_CASE("a pair that does not fit is refused with both numbers") {
    random_pair pair;
    make_random_pair(pair, 2);
    target model(pair.target, pair.target_tensors, pair.draft.taps);
    draft small(pair.draft, pair.draft_tensors);
    const std::vector<index> one_more(pair.draft.taps.size() + 1, 0);
    target other(pair.target, pair.target_tensors, one_more);
    using drafter = dflash_drafter<draft, target>;
    CHECK_THROWS_WITH_AS(drafter(small, other), doctest::Contains(std::to_string(other.feature_size()).c_str()),
                         config_error);

    draft_shape shape = pair.draft;
    shape.mask_token = static_cast<token_id>(pair.target.vocab_size);
    draft outside(shape, pair.draft_tensors);
    CHECK_THROWS_WITH_AS(drafter(outside, model), doctest::Contains("mask_token_id"), config_error);
    CHECK_THROWS_WITH_AS(check_pair(pair.target, shape), doctest::Contains("mask_token_id"), config_error);
    shape.mask_token = static_cast<token_id>(pair.target.vocab_size - 1);
    draft inside(shape, pair.draft_tensors);
    CHECK_NOTHROW(drafter(inside, model));

    shape = pair.draft;
    shape.taps.push_back(pair.target.layers);
    CHECK_THROWS_WITH_AS(check_pair(pair.target, shape), doctest::Contains("target_layer_ids"), config_error);
    shape = pair.draft;
    shape.hidden_size += 1;
    CHECK_THROWS_WITH_AS(check_pair(pair.target, shape), doctest::Contains("hidden_size"), config_error);
}

TEST_CASE("numbers that cannot work are refused with the field") {
    random_pair pair;
    make_random_pair(pair, 3);
    const auto refused = [&](auto change, const char* field) {
        target_shape shape = pair.target;
        change(shape);
        CHECK_THROWS_WITH_AS(shape.check(), doctest::Contains(field), config_error);
    };
    refused([](target_shape& s) { s.heads = 6, s.kv_heads = 4; }, "num_key_value_heads 4");
    refused([](target_shape& s) { s.head_dim = 7; }, "head_dim 7");
    refused([](target_shape& s) { s.hidden_size = 0; }, "hidden_size is 0");
    refused([](target_shape& s) { s.layers = -1; }, "num_hidden_layers is -1");
    refused([](target_shape& s) { s.vocab_size = index{1} << 40; }, "vocab_size");
    refused([](target_shape& s) { s.masks.pop_back(); }, "layer_types");
    refused([](target_shape& s) { s.masks[0].window = -3; }, "sliding_window -3");
    refused([](target_shape& s) { s.rms_norm_eps = -1.0F; }, "rms_norm_eps");

    target_weights weights = pair.target_tensors;
    weights.norm.cols += 1;
    CHECK_THROWS_WITH_AS(target(pair.target, weights), doctest::Contains("norm: shape is"), config_error);
    weights = pair.target_tensors;
    weights.layers.pop_back();
    CHECK_THROWS_WITH_AS(target(pair.target, weights), doctest::Contains("num_hidden_layers"), config_error);
}

TEST_CASE("a forward that cannot be done leaves the cache as it was") {
    random_pair pair;
    make_random_pair(pair, 5);
    target model(pair.target, pair.target_tensors, pair.draft.taps);
    auto cache = model.make_cache(6);
    const std::vector<token_id> good = {1, 2, 3, 4};
    model.forward(good, cache, {});
    const std::vector<float> before = cached_rows(cache);
    const std::vector<token_id> outside = {1, static_cast<token_id>(model.vocab_size())};
    const std::vector<token_id> negative = {-1};
    CHECK_THROWS_AS(model.forward(outside, cache, {}), config_error);
    CHECK_THROWS_AS(model.forward(negative, cache, {}), config_error);
    CHECK_THROWS_AS(model.forward(good, cache, {}), config_error);  // 8 positions, room for 6
    CHECK_THROWS_AS(model.forward({}, cache, {}), config_error);
    CHECK(cache.length() == 4);
    CHECK(cached_rows(cache) == before);
}

}  // namespace
}  // namespace dflash::test
