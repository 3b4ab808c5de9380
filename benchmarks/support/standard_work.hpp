// The work that is measured: transformers of Qwen3's form with random weights, and what their steps cost at least.
//
// Weights come from a hash of (tensor, element), so that they are the same everywhere: N(0, 1/in) for matrices, N(0, 1)
// for the embedding, norms of ones. What a step costs depends on shapes and element types alone, not on the values.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dflash/buffer.hpp>
#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>

namespace dflash::bench {

/// A target, and for the standard work a draft that fits it. The weight views point into the object.
struct work {
    std::string name;  ///< "standard" or "qwen3-0.6b"
    dtype type = dtype::f32;
    target_shape target;
    target_weights target_tensors;
    std::optional<draft_shape> draft;
    draft_weights draft_tensors;
    std::deque<buffer<std::byte>> storage;

    work() = default;
    work(const work&) = delete;
    work& operator=(const work&) = delete;
};

/// "f32" or "bf16".
[[nodiscard]] inline const char* type_text(dtype type) {
    return type == dtype::f32 ? "f32" : "bf16";
}

/// standard: hidden 1024, 8 layers, 16 heads, 8 KV heads of 128, intermediate 3072, vocabulary 8192, untied; the draft
/// has 2 layers, taps 1 and 5, block 16. qwen3-0.6b: the published shape (28 layers, vocabulary 151,936, tied), no
/// draft. Errors: config_error for another name.
[[nodiscard]] std::unique_ptr<work> make_work(const std::string& name, dtype type);

/// Calls visit(name, tensor) for every tensor of the target, named as GGUF files name them.
void visit_target_tensors(const work& w, const std::function<void(const std::string&, const tensor_view&)>& visit);

/// K and V rows that fill a cache without a forward: multiples of 1/64, which every element type holds exactly, so that
/// all contenders see the same numbers.
class cached_rows {
public:
    explicit cached_rows(const transformer_shape& shape);

    [[nodiscard]] std::span<const float> key(index layer, index position) const { return row(layer, position, 0); }
    [[nodiscard]] std::span<const float> value(index layer, index position) const { return row(layer, position, 254); }

    /// The rows that are repeated: (509, g*e). Keys are row (7 * position + 101 * layer) % 509, values 254 rows on.
    [[nodiscard]] std::span<const float> values() const { return values_; }

private:
    [[nodiscard]] std::span<const float> row(index layer, index position, index shift) const {
        const index r = (position * 7 + layer * 101 + shift) % pool;
        return {values_.data() + r * width_, static_cast<std::size_t>(width_)};
    }

    static constexpr index pool = 509;
    index width_;
    std::vector<float> values_;
};

/// `count` tokens of the vocabulary, from a seed.
[[nodiscard]] std::vector<token_id> random_tokens(index count, index vocab_size, std::uint64_t seed);

/// The least a step can do: what must come from memory once, and the multiplications and additions.
struct cost {
    double bytes = 0;
    double flop = 0;            ///< of products with weights
    double attention_flop = 0;  ///< always in f32

    friend cost operator+(cost a, cost b) {
        return {a.bytes + b.bytes, a.flop + b.flop, a.attention_flop + b.attention_flop};
    }
    /// Seconds on a machine of these speeds, whichever of the two takes longer. `peak`: of the products' arithmetic.
    [[nodiscard]] double seconds(double bytes_per_second, double peak, double f32_peak) const {
        const double memory = bytes / bytes_per_second;
        const double compute = flop / peak + attention_flop / f32_peak;
        return memory > compute ? memory : compute;
    }
};

/// Elements of the matrices that one forward with logits reads.
[[nodiscard]] index streamed_weights(const target_shape& shape);
/// A forward of `rows` tokens behind `context` positions, with logits of `logit_rows` of them. `kv_bytes`: of one
/// element in the cache.
[[nodiscard]] cost step_cost(const work& w, index context, index rows, index logit_rows, index kv_bytes);
/// The draft's pass over a block, head included, and the injection of `committed` rows.
[[nodiscard]] cost draft_cost(const work& w, index context, index block, index kv_bytes);
[[nodiscard]] cost inject_cost(const work& w, index committed);

}  // namespace dflash::bench
