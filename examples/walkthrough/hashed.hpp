// Weights from an integer hash: the same bytes everywhere, no file, no random library.
#pragma once

#include <cstdint>
#include <vector>

#include <dflash/numerics/convert.hpp>

#include "walkthrough/store.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// splitmix64 over a counter, written into a store.
class hashed_weights {
public:
    explicit hashed_weights(tensor_store& store, std::uint64_t counter = 0) : store_(&store), counter_(counter) {}

    std::uint64_t word() {
        std::uint64_t z = ++counter_ * 0x9E3779B97F4A7C15U;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }

    /// Odd multiples of scale / 256 between -scale and scale, which bf16 holds exactly. scale: a power of two.
    tensor_view matrix(index rows, index cols, float scale) {
        std::vector<std::uint16_t> bits;
        bits.reserve(static_cast<std::size_t>(rows * cols));
        std::uint64_t eight = 0;
        for (index i = 0; i < rows * cols; ++i) {
            eight = i % 8 == 0 ? word() : eight >> 8;
            const auto odd = static_cast<float>(2 * static_cast<int>(eight & 0xFFU) - 255);
            bits.push_back(numerics::to_bf16(odd * (scale / 256)).bits);
        }
        return store_->halves(bits, rows, cols);
    }

    /// A norm's weights: multiples of 1/64 from 3/4 to 1 1/4.
    tensor_view norm(index cols) {
        std::vector<float> weights;
        for (index i = 0; i < cols; ++i) {
            weights.push_back(1.0F + static_cast<float>(static_cast<int>(word() % 33) - 16) / 64);
        }
        return store_->floats(weights, 1, cols);
    }

    /// A decoder layer with q and k norms and no biases.
    layer_weights layer(const transformer_shape& shape, float scale) {
        const index d = shape.hidden_size;
        const index q = shape.heads * shape.head_dim;
        const index kv = shape.kv_heads * shape.head_dim;
        layer_weights w;
        w.input_norm = norm(d);
        w.post_norm = norm(d);
        w.q_norm = norm(shape.head_dim);
        w.k_norm = norm(shape.head_dim);
        w.q = matrix(q, d, scale);
        w.k = matrix(kv, d, scale);
        w.v = matrix(kv, d, scale);
        w.o = matrix(d, q, scale);
        w.gate = matrix(shape.intermediate_size, d, scale);
        w.up = matrix(shape.intermediate_size, d, scale);
        w.down = matrix(d, shape.intermediate_size, scale);
        return w;
    }

private:
    tensor_store* store_;
    std::uint64_t counter_;
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
