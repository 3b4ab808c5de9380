// A program as a user may build it, with whatever flags. Exit code 0: the backend refuses to work, or the results are
// the right ones. 1: results are wrong and nobody said so.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/digest.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/numerics/softmax.hpp>

namespace {

using dflash::index;
using dflash::cpu::exact;
using dflash::cpu::isa;
namespace numerics = dflash::numerics;

/// In [-1, 1), from an integer hash.
std::vector<float> noise(index n, std::uint32_t seed) {
    std::vector<float> x(static_cast<std::size_t>(n));
    std::uint32_t state = seed;
    for (float& value : x) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    }
    return x;
}

/// Odd positions have a small weight and a value with which it underflows to -0.
void attend_underflowing(numerics::digest& into, const exact& ops) {
    std::vector<float> keys(300, 0.0F);
    std::vector<float> values(300, 0.0F);
    for (std::size_t j = 1; j < keys.size(); j += 2) {
        keys[j] = -60.0F;
        values[j] = -0x1p-100F;
    }
    const std::vector<float> ones(2, 1.0F);
    std::vector<float> out(2);
    exact::cache_type cache(1, 1, 1, 300);
    cache.write(0, 0, {keys.data(), 300, 1}, {values.data(), 300, 1});
    ops.attend({{ones.data(), 2, 1}, cache.layer(0, 300), {out.data(), 2, 1}, 1, 1, 1, 298, {}, 1.0F});
    into.add(out);
}

void kernels(numerics::digest& into, const exact& ops) {
    const std::vector<float> x = noise(3 * 300, 1);
    const std::vector<float> weights = noise(40 * 300, 2);
    const dflash::tensor_view stored{dflash::dtype::f32, reinterpret_cast<const std::byte*>(weights.data()), 40, 300};
    std::vector<float> y(std::size_t{3} * 40);
    ops.linear({x.data(), 3, 300}, ops.pack({&stored, 1}), {y.data(), 3, 40});
    into.add(y);
    std::vector<float> product(std::size_t{3} * 20);
    ops.silu_mul({y.data(), 3, 40}, {product.data(), 3, 20});
    into.add(product);
    std::vector<float> normed(x.size());
    const dflash::tensor_view norm{dflash::dtype::f32, stored.data, 1, 300};
    ops.rms_norm({x.data(), 3, 300}, ops.pack_vector(norm), 1e-6F, {normed.data(), 3, 300});
    into.add(normed);
    exact::cache_type cache(1, 1, 24, 300);
    cache.write(0, 0, {weights.data(), 300, 24}, {weights.data() + 1000, 300, 24});
    std::vector<float> out(std::size_t{2} * 24);
    ops.attend({{x.data(), 2, 24}, cache.layer(0, 300), {out.data(), 2, 24}, 1, 1, 24, 298, {}, 0.7F});
    into.add(out);
    attend_underflowing(into, ops);
}

void functions(numerics::digest& into) {
    std::vector<float> x = noise(300, 3);
    std::vector<float> p(x.size());
    numerics::softmax(x.data(), 300, p.data());
    into.add(p);
    const float special[] = {numerics::not_a_number, numerics::infinity, -numerics::infinity, -1.0F};
    x.insert(x.end(), special, special + 4);
    for (const float v : x) {
        const float values[] = {numerics::exp(v), numerics::log(v), numerics::log1p(v), numerics::silu(v)};
        into.add(values);
    }
    numerics::rope_parameters rope;
    rope.kind = numerics::rope_scaling_kind::yarn;
    rope.factor = 3.0;
    rope.original_max_position = 512.0;
    const numerics::rope_table table(rope, 32, 40);
    into.add(std::span<const float>(table.cos(0), std::size_t{40} * 16));
    into.add(std::span<const float>(table.sin(0), std::size_t{40} * 16));
}

std::uint64_t results() {
    numerics::digest digest;
    for (const isa set : {isa::automatic, isa::scalar}) {
        kernels(digest, exact({.threads = 1, .force = set}));
    }
    functions(digest);
    return digest.value();
}

}  // namespace

int main() {
    try {
        const std::uint64_t got = results();
        const bool right = got == 0x585D72DC5BDB2E57U;
        std::printf("%s results: %016" PRIx64 "\n", right ? "right" : "WRONG", got);
        return right ? 0 : 1;
    } catch (const dflash::backend_error& error) {
        std::printf("refused: %s\n", error.what());
        return 0;
    }
}
