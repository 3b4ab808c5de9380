// Digests of rotary tables of every kind, and of the rotation by them.
#pragma once

#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/digest.hpp>
#include <dflash/numerics/rope.hpp>

#include "support/random_model.hpp"

namespace dflash::test {

/// Settings as checkpoints have them: the kinds, and what yarn may leave out or say.
inline std::vector<numerics::rope_parameters> rope_settings() {
    using kind = numerics::rope_scaling_kind;
    std::vector<numerics::rope_parameters> all(8);
    all[1].theta = 1000000.0;
    all[2] = {.kind = kind::linear, .factor = 2.5};
    all[3] = {.theta = 500000.0, .kind = kind::llama3, .factor = 8.0, .original_max_position = 8192.0};
    all[4] = {.kind = kind::llama3,
              .factor = 3.0,
              .low_freq_factor = 2.0,
              .high_freq_factor = 5.0,
              .original_max_position = 300.0};
    all[5] = {.kind = kind::yarn, .factor = 4.0, .original_max_position = 4096.0};
    all[6] = {.theta = 1000000.0,
              .kind = kind::yarn,
              .factor = 40.0,
              .original_max_position = 100.0,
              .mscale = 1.0,
              .mscale_all_dim = 0.7,
              .truncate = false};
    all[7] = {.kind = kind::yarn,
              .factor = 1.5,
              .original_max_position = 64.0,
              .attention_factor = 1.1,
              .beta_fast = 20.0,
              .beta_slow = 2.0};
    return all;
}

/// Tables for two head sizes, a few hundred positions, and rows that stand at some of them.
inline void rotary(numerics::digest& into, const cpu::exact& ops) {
    random_source random(3);
    for (const numerics::rope_parameters& settings : rope_settings()) {
        for (const index head_dim : {10, 64}) {
            const index positions = 260;
            const numerics::rope_table table(settings, head_dim, positions);
            for (index position = 0; position < positions; ++position) {
                const auto half = static_cast<std::size_t>(table.half());
                into.add(std::span<const float>(table.cos(position), half));
                into.add(std::span<const float>(table.sin(position), half));
            }
            buffer<float> x(5 * 2 * head_dim);
            for (index i = 0; i < x.size(); ++i) {
                x[i] = random.normal();
            }
            ops.rope(x.matrix(5, 2 * head_dim), head_dim, table, 250);
            into.add(std::span<const float>(x.data(), static_cast<std::size_t>(x.size())));
        }
    }
}

}  // namespace dflash::test
