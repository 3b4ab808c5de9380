// A forward of the shape of Qwen3-4B with random weights that are made on the device: one row against sixteen.
#pragma once

#include <string>
#include <utility>

#include <dflash/model/target_transformer.hpp>

#include "timing.hpp"

namespace device_check {

inline dflash::target_shape qwen3_4b() {
    dflash::target_shape s;
    s.hidden_size = 2560;
    s.layers = 36;
    s.heads = 32;
    s.kv_heads = 8;
    s.head_dim = 128;
    s.intermediate_size = 9728;
    s.vocab_size = 151936;
    s.max_positions = 40960;
    s.rope.theta = 1e6;
    s.tied_head = true;
    s.masks.assign(static_cast<std::size_t>(s.layers), {});
    return s;
}

inline dflash::target_weights weights_of(const dflash::target_shape& s, const device_numbers& numbers) {
    const index d = s.hidden_size;
    dflash::target_weights w;
    w.embedding = numbers.view(s.vocab_size, d);
    w.norm = numbers.view(1, d);
    dflash::layer_weights layer;
    layer.input_norm = numbers.view(1, d);
    layer.post_norm = numbers.view(1, d);
    layer.q = numbers.view(s.heads * s.head_dim, d);
    layer.k = numbers.view(s.kv_heads * s.head_dim, d);
    layer.v = layer.k;
    layer.o = numbers.view(d, s.heads * s.head_dim);
    layer.q_norm = numbers.view(1, s.head_dim);
    layer.k_norm = layer.q_norm;
    layer.gate = numbers.view(s.intermediate_size, d);
    layer.up = layer.gate;
    layer.down = numbers.view(d, s.intermediate_size);
    w.layers.assign(static_cast<std::size_t>(s.layers), layer);
    return w;
}

/// Bytes of the weights that a forward reads.
inline double bytes_read(const dflash::target_shape& s) {
    const auto q = static_cast<double>(s.heads * s.head_dim);
    const auto kv = static_cast<double>(s.kv_heads * s.head_dim);
    const auto d = static_cast<double>(s.hidden_size);
    const double layer = d * (2 * q + 2 * kv + 3 * static_cast<double>(s.intermediate_size));
    return 2 * (static_cast<double>(s.layers) * layer + static_cast<double>(s.vocab_size) * d);
}

inline void measure_step(report& out) {
    const cuda::exact ops;
    dflash::target_shape shape = qwen3_4b();
    const device_numbers numbers(ops, dtype::bf16, shape.vocab_size * shape.hidden_size);
    const dflash::target_weights weights = weights_of(shape, numbers);
    for (const auto activation : {dflash::activation_type::f32, dflash::activation_type::bf16}) {
        const std::string tier(name_of(activation));
        out.attempt("step, " + tier, [&] {
            const cuda::exact backend({.activation = activation});
            dflash::target_transformer<cuda::exact> target(shape, weights, {}, backend);
            constexpr index length = 1024;
            auto cache = target.make_cache(length + 16);
            cache.extend(length);  // zeros: what they hold takes no other time
            dflash::buffer<token_id, cuda::pinned_space> tokens(16);
            dflash::buffer<float, device_space> logits(16 * shape.vocab_size);
            double one = 0;
            for (const index rows : {1, 2, 4, 8, 16}) {
                const double seconds = median_seconds(backend.context().stream(), [&] {
                    target.forward({tokens.data(), static_cast<std::size_t>(rows)}, cache,
                                   {logits.matrix(rows, shape.vocab_size), {}});
                    cache.crop(length);
                });
                one = rows == 1 ? seconds : one;
                out.figures("Qwen3-4B shape, " + tier + " activations, " + std::to_string(rows) + " rows at 1024",
                            {{"ms", seconds * 1e3},
                             {"GB/s", bytes_read(shape) / seconds * 1e-9},
                             {"over_one_row", seconds / one}});
            }
        });
    }
}

}  // namespace device_check
