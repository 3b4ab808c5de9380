// Each kernel by itself, from graph replays, with buffers that take turns so that none is in the cache, as a share of
// what memory and arithmetic allow.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "timing.hpp"

namespace device_check {

/// Twice the largest second-level cache this meets, and more.
inline constexpr index turned_bytes = index{320} << 20;

inline void measure_linear(const cuda::exact& ops, report& out, const ceilings& most, dtype type) {
    constexpr index n = 4096;
    const index bytes = n * n * size_of(type);
    const device_numbers numbers(ops, type, n * n);
    const std::array parts = {numbers.view(n, n)};
    std::vector<cuda::linear_weights> weights;
    for (index held = 0; held < turned_bytes; held += bytes) {
        weights.push_back(ops.pack(parts));
    }
    const auto calls = static_cast<int>(weights.size());
    noise random(1);
    host_matrix inputs(32, n);
    inputs.fill(random, content::plain);
    device_matrix x(ops, inputs);
    device_matrix y(ops, 32, n);
    const std::string name = "linear 4096 x 4096, " + std::string(name_of(type)) +
                             (ops.activation() == dflash::activation_type::bf16 ? " in the bf16 tier" : "");
    double one = 0;
    for (const index rows : {1, 2, 4, 8, 16, 32}) {
        const double seconds = seconds_per_call(ops, calls, [&](int i) {
            ops.linear(x.view().rows(0, rows), weights[static_cast<std::size_t>(i)], y.view().rows(0, rows));
        });
        one = rows == 1 ? seconds : one;
        const auto m = static_cast<double>(rows);
        const double moved = static_cast<double>(bytes) + 2 * 4.0 * m * n;
        out.figures(name + ", " + std::to_string(rows) + " rows",
                    {{"us", seconds * 1e6},
                     {"share", most.least_seconds(moved, 2.0 * m * n * n) / seconds},
                     {"GB/s", moved / seconds * 1e-9},
                     {"over_one_row", seconds / one}});
    }
}

inline void measure_attention(const cuda::exact& ops, report& out, const ceilings& most, index length) {
    constexpr index heads = 32;
    constexpr index kv_heads = 8;
    constexpr index e = 128;
    const index bytes = 2 * kv_heads * e * length * 4;
    const index layers = (turned_bytes + bytes - 1) / bytes;
    cuda::device_cache cache(layers, kv_heads, e, length);
    noise random(2);
    host_matrix inputs(16, heads * e);
    host_matrix some(32, kv_heads * e);
    inputs.fill(random, content::plain);
    some.fill(random, content::plain);
    device_matrix q(ops, inputs);
    device_matrix kv(ops, some);
    device_matrix y(ops, 16, heads * e);
    for (index layer = 0; layer < layers; ++layer) {
        for (index first = 0; first < length; first += 32) {
            ops.write(cache, layer, first, kv.view(), kv.view());
        }
    }
    const float scale = numerics::attention_scale(e);
    double one = 0;
    for (const index rows : {1, 16}) {
        const double seconds = seconds_per_call(ops, static_cast<int>(layers), [&](int i) {
            ops.attend({q.view().rows(0, rows),
                        cache.layer(i, length),
                        y.view().rows(0, rows),
                        heads,
                        kv_heads,
                        e,
                        length - rows,
                        {.causal = true},
                        scale});
        });
        one = rows == 1 ? seconds : one;
        const double operations = 4.0 * static_cast<double>(rows * heads * e * length);
        out.figures("attention, " + std::to_string(length) + " positions, " + std::to_string(rows) + " rows",
                    {{"us", seconds * 1e6},
                     {"share", most.least_seconds(static_cast<double>(bytes), operations) / seconds},
                     {"GB/s", static_cast<double>(bytes) / seconds * 1e-9},
                     {"over_one_row", seconds / one}});
    }
}

/// Operations on rows of the width of a small model; few bytes, so these are times, not shares.
inline void measure_rows(const cuda::exact& ops, report& out) {
    constexpr index heads = 32;
    constexpr index e = 128;
    constexpr index inner = 9728;
    constexpr int calls = 32;
    noise random(3);
    host_matrix wide(16, 2 * inner);
    wide.fill(random, content::plain);
    device_matrix x(ops, wide);
    device_matrix y(ops, 16, inner);
    const device_numbers numbers(ops, dtype::f32, inner);
    const auto norm = ops.pack_vector(numbers.view(1, heads * e));
    const auto head_norm = ops.pack_vector(numbers.view(1, e));
    const numerics::rope_table table({}, e, 1024);
    for (const index rows : {1, 16}) {
        const auto some = x.view().rows(0, rows);
        const auto to = y.view().rows(0, rows);
        const auto tell = [&](const char* what, auto body) {
            out.figures(std::string(what) + ", " + std::to_string(rows) + " rows",
                        {{"us", seconds_per_call(ops, calls, [&](int /*i*/) { body(); }) * 1e6}});
        };
        tell("rms_norm of 4096",
             [&] { ops.rms_norm(some.columns(0, heads * e), norm, 1e-6F, to.columns(0, heads * e)); });
        tell("rms_norm of 32 heads of 128",
             [&] { ops.rms_norm_heads(some.columns(0, heads * e), head_norm, 1e-6F, e); });
        tell("rope of 32 heads of 128", [&] { ops.rope(some.columns(0, heads * e), e, table, 1000); });
        tell("silu_mul to 9728", [&] { ops.silu_mul(some, to); });
        tell("add of 4096", [&] { ops.add(to.columns(0, heads * e), some.columns(0, heads * e)); });
    }
}

inline void measure_speed(report& out) {
    const cuda::exact ops;
    cudaDeviceProp device = {};
    cuda::runtime::check(cudaGetDeviceProperties(&device, 0), "properties");
    out.note("device", device.name);
    out.figures("device", {{"multiprocessors", static_cast<double>(device.multiProcessorCount)},
                           {"compute_capability", device.major + device.minor / 10.0},
                           {"L2_MiB", static_cast<double>(device.l2CacheSize) / 1048576},
                           {"memory_GiB", static_cast<double>(device.totalGlobalMem) / 1073741824}});
    const ceilings most = measure_ceilings(ops);
    out.figures("ceilings", {{"copy_GB/s", most.copy_bandwidth * 1e-9},
                             {"read_GB/s", most.read_bandwidth * 1e-9},
                             {"f32_TFLOP/s", most.flops * 1e-12}});
    for (const dtype type : {dtype::bf16, dtype::f32}) {
        out.attempt("linear", [&] { measure_linear(ops, out, most, type); });
    }
    out.attempt("linear, bf16 tier", [&] {
        measure_linear(cuda::exact({.activation = dflash::activation_type::bf16}), out, most, dtype::bf16);
    });
    for (const index length : {1024, 8192}) {
        out.attempt("attention", [&] { measure_attention(ops, out, most, length); });
    }
    out.attempt("rows", [&] { measure_rows(ops, out); });
}

}  // namespace device_check
