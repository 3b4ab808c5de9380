// A small target with weights from an integer hash, runnable on any backend, and its four rows in both ways.
#pragma once

#include <span>
#include <vector>

#include <dflash/buffer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "walkthrough/hashed.hpp"

DFLASH_BEGIN_NAMESPACE
namespace one_pass {

/// Shape and weights: 2 layers, d = 128, 4 heads of 32, 16 words.
class small_target {
public:
    static constexpr index d = 128;
    static constexpr index words = 16;

    small_target() : hashed_(store_) {
        shape.hidden_size = d;
        shape.layers = 2;
        shape.heads = 4;
        shape.kv_heads = 2;
        shape.head_dim = 32;
        shape.intermediate_size = 256;
        shape.vocab_size = words;
        shape.max_positions = 64;
        shape.masks.assign(2, {.causal = true, .window = 0});
        weights.embedding = hashed_.matrix(words, d, 1.0F);
        weights.norm = hashed_.norm(d);
        weights.head = hashed_.matrix(words, d, 0.25F);
        for (index l = 0; l < shape.layers; ++l) {
            weights.layers.push_back(hashed_.layer(shape, 0.125F));
        }
    }

    /// Replaces the head. Shape: (words, d).
    void set_head(const std::vector<float>& head) { weights.head = head_store_.floats(head, words, d); }

    target_shape shape;
    target_weights weights;

private:
    walkthrough::tensor_store store_;
    walkthrough::tensor_store head_store_;
    walkthrough::hashed_weights hashed_;
};

/// What four rows behind a prompt gave.
struct four_rows {
    std::vector<float> logits;  // (4, v)
    std::vector<float> hidden;  // (4, d) after the final norm
    std::vector<float> cached;  // K and V of positions 3 .. 6, every layer
};

/// Runs the prompt, then the rows in one forward or one by one. The last layer is tapped: its features are the rows
/// that the head sees.
template <class Ops>
four_rows run(const small_target& model, std::span<const token_id> prompt, std::span<const token_id> rows,
              bool one_by_one, Ops ops) {
    const std::vector<index> taps = {model.shape.layers - 1};
    target_transformer<Ops> target(model.shape, model.weights, taps, std::move(ops));
    const index m = size_of(rows);
    const index first = size_of(prompt);
    auto cache = target.make_cache(first + m);
    buffer<float> logits(m * small_target::words);
    buffer<float> features(m * small_target::d);
    const matrix_view<float> law = logits.matrix(m, small_target::words);
    const matrix_view<float> hidden = features.matrix(m, small_target::d);
    target.forward(prompt, cache, {});
    if (one_by_one) {
        for (index i = 0; i < m; ++i) {
            target.forward(rows.subspan(static_cast<std::size_t>(i), 1), cache, {law.rows(i, 1), hidden.rows(i, 1)});
        }
    } else {
        target.forward(rows, cache, {law, hidden});
    }
    four_rows out;
    out.logits.assign(logits.data(), logits.data() + logits.size());
    out.hidden.assign(features.data(), features.data() + features.size());
    for (index p = first; p < first + m; ++p) {
        for (index l = 0; l < model.shape.layers; ++l) {
            const auto layer = cache.layer(l, cache.length());
            for (index x = 0; x < model.shape.kv_heads * model.shape.head_dim; ++x) {
                out.cached.push_back(layer.key(x / model.shape.head_dim, p, x % model.shape.head_dim));
                out.cached.push_back(layer.value(x / model.shape.head_dim, p, x % model.shape.head_dim));
            }
        }
    }
    return out;
}

}  // namespace one_pass
DFLASH_END_NAMESPACE
