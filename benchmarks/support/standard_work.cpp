#include "support/standard_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <dflash/numerics/convert.hpp>

namespace dflash::bench {

namespace {

std::uint64_t hashed(std::uint64_t x) {
    std::uint64_t z = x * 0x9E3779B97F4A7C15U + 0x632BE59BD9B4E019U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

/// Roughly normal with standard deviation 1: the sum of four uniforms of 16 bits.
float normal(std::uint64_t x) {
    const std::uint64_t z = hashed(x);
    const auto sum = static_cast<float>((z & 0xFFFFU) + ((z >> 16) & 0xFFFFU) + ((z >> 32) & 0xFFFFU) + (z >> 48));
    return (sum - 131070.0F) * 2.6429e-5F;  // sqrt(3) / 65535
}

class maker {
public:
    explicit maker(work& out) : out_(out) {}

    tensor_view matrix(index rows, index cols) { return fill(rows, cols, 1.0F / std::sqrt(static_cast<float>(cols))); }
    tensor_view table(index rows, index cols) { return fill(rows, cols, 1.0F); }

    tensor_view ones(index cols) {
        buffer<std::byte>& bytes = allocate(cols, out_.type);
        for (index i = 0; i < cols; ++i) {
            store(bytes, i, 1.0F);
        }
        return {out_.type, bytes.data(), 1, cols};
    }

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
        w.q_norm = ones(s.head_dim);
        w.k_norm = ones(s.head_dim);
        w.post_norm = ones(d);
        w.gate = matrix(s.intermediate_size, d);
        w.up = matrix(s.intermediate_size, d);
        w.down = matrix(d, s.intermediate_size);
        return w;
    }

private:
    buffer<std::byte>& allocate(index elements, dtype type) {
        return out_.storage.emplace_back(elements * size_of(type));
    }

    void store(buffer<std::byte>& bytes, index i, float value) const {
        if (out_.type == dtype::f32) {
            std::memcpy(bytes.data() + 4 * i, &value, 4);
        } else {
            const std::uint16_t bits = numerics::to_bf16(value).bits;
            std::memcpy(bytes.data() + 2 * i, &bits, 2);
        }
    }

    tensor_view fill(index rows, index cols, float scale) {
        const std::uint64_t tensor = ++tensors_ << 40;
        buffer<std::byte>& bytes = allocate(rows * cols, out_.type);
#pragma omp parallel for schedule(static)
        for (index row = 0; row < rows; ++row) {
            for (index i = row * cols; i < (row + 1) * cols; ++i) {
                store(bytes, i, scale * normal(tensor + static_cast<std::uint64_t>(i)));
            }
        }
        return {out_.type, bytes.data(), rows, cols};
    }

    work& out_;
    std::uint64_t tensors_ = 0;
};

transformer_shape base_shape(index layers, index vocab_size) {
    transformer_shape s;
    s.hidden_size = 1024;
    s.layers = layers;
    s.heads = 16;
    s.kv_heads = 8;
    s.head_dim = 128;
    s.intermediate_size = 3072;
    s.vocab_size = vocab_size;
    s.max_positions = 40960;
    s.rope.theta = 1e6;
    return s;
}

index layer_elements(const transformer_shape& s) {
    const index q = s.heads * s.head_dim;
    const index kv = s.kv_heads * s.head_dim;
    return s.hidden_size * (2 * q + 2 * kv + 3 * s.intermediate_size);
}

/// Attention of `rows` queries over `context` cached positions and themselves, in every layer.
cost attention_cost(const transformer_shape& s, index context, index rows, bool causal, index kv_bytes) {
    const double seen =
        causal ? static_cast<double>(rows) * (static_cast<double>(context) + 0.5 * static_cast<double>(rows + 1))
               : static_cast<double>(rows * (context + rows));
    return {static_cast<double>(s.layers * 2 * s.kv_heads * s.head_dim * (context + rows) * kv_bytes), 0,
            4.0 * seen * static_cast<double>(s.layers * s.heads * s.head_dim)};
}

/// Matrices of so many elements, applied to so many rows.
cost product_cost(const work& w, index elements, index rows) {
    return {static_cast<double>(elements * size_of(w.type)), 2.0 * static_cast<double>(elements * rows), 0};
}

}  // namespace

std::unique_ptr<work> make_work(const std::string& name, dtype type) {
    auto out = std::make_unique<work>();
    out->name = name;
    out->type = type;
    maker make(*out);
    target_shape& t = out->target;
    if (name == "standard") {
        static_cast<transformer_shape&>(t) = base_shape(8, 8192);
    } else if (name == "qwen3-0.6b") {
        static_cast<transformer_shape&>(t) = base_shape(28, 151936);
        t.tied_head = true;
    } else {
        raise<config_error>("work: got \"", name, "\", needs standard or qwen3-0.6b");
    }
    t.masks.assign(static_cast<std::size_t>(t.layers), {.causal = true, .window = 0});
    out->target_tensors.embedding = make.table(t.vocab_size, t.hidden_size);
    out->target_tensors.norm = make.ones(t.hidden_size);
    if (!t.tied_head) {
        out->target_tensors.head = make.matrix(t.vocab_size, t.hidden_size);
    }
    for (index l = 0; l < t.layers; ++l) {
        out->target_tensors.layers.push_back(make.layer(t));
    }
    if (name == "standard") {
        draft_shape& d = out->draft.emplace();
        static_cast<transformer_shape&>(d) = base_shape(2, t.vocab_size);
        d.block_size = 16;
        d.mask_token = 8191;
        d.taps = {1, 5};
        d.masks.assign(2, {.causal = false, .window = 0});
        draft_weights& w = out->draft_tensors;
        w.fc = make.matrix(d.hidden_size, 2 * d.hidden_size);
        w.hidden_norm = make.ones(d.hidden_size);
        w.norm = make.ones(d.hidden_size);
        for (index l = 0; l < d.layers; ++l) {
            w.layers.push_back(make.layer(d));
        }
    }
    return out;
}

void visit_target_tensors(const work& w, const std::function<void(const std::string&, const tensor_view&)>& visit) {
    visit("token_embd.weight", w.target_tensors.embedding);
    visit("output_norm.weight", w.target_tensors.norm);
    if (!w.target.tied_head) {
        visit("output.weight", w.target_tensors.head);
    }
    for (std::size_t l = 0; l < w.target_tensors.layers.size(); ++l) {
        const layer_weights& layer = w.target_tensors.layers[l];
        const std::string block = "blk." + std::to_string(l) + ".";
        visit(block + "attn_norm.weight", layer.input_norm);
        visit(block + "attn_q.weight", layer.q);
        visit(block + "attn_k.weight", layer.k);
        visit(block + "attn_v.weight", layer.v);
        visit(block + "attn_output.weight", layer.o);
        visit(block + "attn_q_norm.weight", layer.q_norm);
        visit(block + "attn_k_norm.weight", layer.k_norm);
        visit(block + "ffn_norm.weight", layer.post_norm);
        visit(block + "ffn_gate.weight", layer.gate);
        visit(block + "ffn_up.weight", layer.up);
        visit(block + "ffn_down.weight", layer.down);
    }
}

cached_rows::cached_rows(const transformer_shape& shape)
    : width_(shape.kv_heads * shape.head_dim), values_(static_cast<std::size_t>(pool * width_)) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const float x = normal((std::uint64_t{1} << 62) + i);
        values_[i] = (std::clamp)(std::nearbyint(x * 64.0F), -255.0F, 255.0F) / 64.0F;
    }
}

std::vector<token_id> random_tokens(index count, index vocab_size, std::uint64_t seed) {
    std::vector<token_id> out;
    for (index i = 0; i < count; ++i) {
        const std::uint64_t z = hashed((seed << 32) + static_cast<std::uint64_t>(i));
        out.push_back(static_cast<token_id>(z % static_cast<std::uint64_t>(vocab_size)));
    }
    return out;
}

index streamed_weights(const target_shape& shape) {
    return shape.layers * layer_elements(shape) + shape.vocab_size * shape.hidden_size;
}

cost step_cost(const work& w, index context, index rows, index logit_rows, index kv_bytes) {
    const target_shape& t = w.target;
    return product_cost(w, t.layers * layer_elements(t), rows) +
           product_cost(w, t.vocab_size * t.hidden_size, logit_rows) + attention_cost(t, context, rows, true, kv_bytes);
}

cost draft_cost(const work& w, index context, index block, index kv_bytes) {
    const draft_shape& d = *w.draft;
    return product_cost(w, d.layers * layer_elements(d), block) +
           product_cost(w, w.target.vocab_size * d.hidden_size, block - 1) +
           attention_cost(d, context, block, false, kv_bytes);
}

cost inject_cost(const work& w, index committed) {
    const draft_shape& d = *w.draft;
    const index taps = static_cast<index>(d.taps.size());
    const index kv = d.layers * 2 * d.kv_heads * d.head_dim * d.hidden_size;
    return product_cost(w, taps * d.hidden_size * d.hidden_size + kv, committed);
}

}  // namespace dflash::bench
