// Random transformers for property tests: shapes, weights and checkpoint views from a seed.
//
// Weights are drawn so that hard cases are common: bf16 and f32, head rows that tie or differ by one ulp, rows that
// cancel. The bytes live in the object; the weight views point into it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>
#include <dflash/numerics/convert.hpp>

namespace dflash::test {

/// A small generator (splitmix64), so that a seed means the same everywhere.
class random_source {
public:
    explicit random_source(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }
    /// low .. high, both included.
    index between(index low, index high) {
        return low + static_cast<index>(bits() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool chance(int percent) { return between(0, 99) < percent; }
    /// Roughly normal with standard deviation 1, from sums of uniforms.
    float normal() {
        float sum = 0;
        for (int i = 0; i < 4; ++i) {
            sum += static_cast<float>(static_cast<double>(bits() >> 40) * 0x1p-24);
        }
        return (sum - 2.0F) * 1.7320508F;
    }

private:
    std::uint64_t state_;
};

/// A target and a draft that fits it, with their weights.
struct random_pair {
    target_shape target;
    target_weights target_tensors;
    draft_shape draft;
    draft_weights draft_tensors;
    std::deque<std::vector<std::byte>> storage;

    random_pair() = default;
    random_pair(const random_pair&) = delete;
    random_pair& operator=(const random_pair&) = delete;
};

namespace detail {

class pair_maker {
public:
    pair_maker(random_pair& out, std::uint64_t seed) : out_(out), random_(seed) {}

    void make() {
        const index head_dims[] = {4, 8, 16};
        transformer_shape base;
        base.kv_heads = random_.between(1, 2);
        base.heads = base.kv_heads * random_.between(1, 3);
        base.head_dim = head_dims[random_.between(0, 2)];
        base.hidden_size = random_.between(16, 64);
        base.intermediate_size = random_.between(8, 48);
        base.vocab_size = random_.between(5, 40);
        base.max_positions = 1024;
        base.rope.theta = random_.chance(50) ? 10000.0 : 100.0;

        type_ = random_.chance(50) ? dtype::bf16 : dtype::f32;
        target_shape& t = out_.target;
        static_cast<transformer_shape&>(t) = base;
        t.layers = random_.between(1, 3);
        t.qk_norm = random_.chance(70);
        t.attention_bias = random_.chance(30);
        t.tied_head = random_.chance(40);
        for (index l = 0; l < t.layers; ++l) {
            t.masks.push_back({.causal = true, .window = random_.chance(25) ? random_.between(1, 9) : 0});
        }
        out_.target_tensors.embedding = table(t.vocab_size, t.hidden_size);
        out_.target_tensors.norm = ones(t.hidden_size);
        if (!t.tied_head) {
            out_.target_tensors.head = table(t.vocab_size, t.hidden_size);
        }
        for (index l = 0; l < t.layers; ++l) {
            out_.target_tensors.layers.push_back(layer(t));
        }

        draft_shape& d = out_.draft;
        static_cast<transformer_shape&>(d) = base;
        d.layers = random_.between(1, 2);
        d.qk_norm = true;
        d.block_size = random_.between(2, 8);
        d.mask_token = static_cast<token_id>(random_.between(0, t.vocab_size - 1));
        const index taps = random_.between(1, 3);
        for (index i = 0; i < taps; ++i) {
            d.taps.push_back(random_.between(0, t.layers - 1));
        }
        for (index l = 0; l < d.layers; ++l) {
            d.masks.push_back({.causal = random_.chance(20), .window = random_.chance(30) ? random_.between(1, 9) : 0});
        }
        out_.draft_tensors.fc = matrix(d.hidden_size, taps * d.hidden_size);
        out_.draft_tensors.hidden_norm = ones(d.hidden_size);
        out_.draft_tensors.norm = ones(d.hidden_size);
        for (index l = 0; l < d.layers; ++l) {
            out_.draft_tensors.layers.push_back(layer(d));
        }
        t.check();
        d.check();
    }

private:
    tensor_view store(const std::vector<float>& values, index rows, index cols) {
        std::vector<std::byte>& bytes = out_.storage.emplace_back();
        bytes.resize(values.size() * static_cast<std::size_t>(size_of(type_)));
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (type_ == dtype::f32) {
                std::memcpy(bytes.data() + 4 * i, &values[i], 4);
            } else {
                const bf16 rounded = numerics::to_bf16(values[i]);
                std::memcpy(bytes.data() + 2 * i, &rounded.bits, 2);
            }
        }
        return {type_, bytes.data(), rows, cols};
    }

    tensor_view matrix(index rows, index cols) {
        std::vector<float> values(static_cast<std::size_t>(rows * cols));
        const float scale = 1.6F / static_cast<float>(cols > 16 ? 6 : 3);
        for (float& x : values) {
            x = random_.normal() * scale;
        }
        return store(values, rows, cols);
    }

    /// Embedding or head: some rows repeat another one, some differ from it by one ulp, some cancel.
    tensor_view table(index rows, index cols) {
        std::vector<float> values(static_cast<std::size_t>(rows * cols));
        for (float& x : values) {
            x = random_.normal() * 0.5F;
        }
        for (index r = 1; r < rows; ++r) {
            float* row = values.data() + r * cols;
            const float* other = values.data() + random_.between(0, r - 1) * cols;
            const index kind = random_.between(0, 9);
            if (kind <= 2) {
                std::copy_n(other, cols, row);
            }
            if (kind == 1) {  // one ulp of the stored type beside the other row
                float& x = row[random_.between(0, cols - 1)];
                const std::uint32_t step = type_ == dtype::f32 ? 1U : 0x10000U;
                x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + step);
            }
            if (kind == 3) {
                for (index c = 0; c + 1 < cols; c += 2) {
                    row[c] = 1000.0F;
                    row[c + 1] = -1000.0F;
                }
            }
        }
        return store(values, rows, cols);
    }

    tensor_view ones(index cols) {
        std::vector<float> values(static_cast<std::size_t>(cols));
        for (float& x : values) {
            x = std::fma(0.2F, random_.normal(), 1.0F);  // a bare product would be contracted by some builds
        }
        return store(values, 1, cols);
    }

    tensor_view bias(bool wanted, index cols) { return wanted ? matrix(1, cols) : tensor_view{}; }

    layer_weights layer(const transformer_shape& s) {
        const index d = s.hidden_size;
        const index q = s.heads * s.head_dim;
        const index kv = s.kv_heads * s.head_dim;
        layer_weights w;
        w.input_norm = ones(d);
        w.q = matrix(q, d);
        w.k = matrix(kv, d);
        w.v = matrix(kv, d);
        w.o = matrix(d, q);
        w.q_bias = bias(s.attention_bias, q);
        w.k_bias = bias(s.attention_bias, kv);
        w.v_bias = bias(s.attention_bias, kv);
        w.o_bias = bias(s.attention_bias, d);
        if (s.qk_norm) {
            w.q_norm = ones(s.head_dim);
            w.k_norm = ones(s.head_dim);
        }
        w.post_norm = ones(d);
        w.gate = matrix(s.intermediate_size, d);
        w.up = matrix(s.intermediate_size, d);
        w.down = matrix(d, s.intermediate_size);
        return w;
    }

    random_pair& out_;
    random_source random_;
    dtype type_ = dtype::f32;
};

}  // namespace detail

/// Fills `out` from the seed.
inline void make_random_pair(random_pair& out, std::uint64_t seed) {
    detail::pair_maker(out, seed).make();
}

}  // namespace dflash::test
