// One number for everything: random pairs decoded speculatively, their logits, features, context features, draft logits
// and caches, and every kernel on fixed inputs, taken into one digest per instruction set and thread count. The bf16
// tier, sampling and rotary tables have digests of their own.
//
//   whole_run <file>   compares with the digests in the file: f32, bf16, sampling, rotary; exit 1 when anything differs
//   whole_run          prints the digests
//
// Standard library only, so that it builds in seconds for every compiler, flag and machine.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/numerics/activation.hpp>
#include <dflash/numerics/digest.hpp>
#include <dflash/numerics/gumbel.hpp>
#include <dflash/numerics/log.hpp>
#include <dflash/numerics/softmax.hpp>
#include <dflash/numerics/tanh.hpp>

#include "digests/rotary.hpp"
#include "digests/sampled.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

/// Takes in everything an observer is shown.
class take_all {
public:
    explicit take_all(numerics::digest& into) : into_(&into) {}
    void operator()(const tensor_event<>& event) const { rows(event.rows); }
    void operator()(const round_event<>& event) const {
        for (const token_id token : event.tokens) {
            into_->add(static_cast<std::uint64_t>(token));
        }
        rows(event.logits);
    }

private:
    void rows(matrix_view<const float> view) const {
        for (index r = 0; r < view.rows(); ++r) {
            into_->add(view.row(r));
        }
    }
    numerics::digest* into_;
};

using target = target_transformer<cpu::exact, cpu::exact, cpu::exact::cache_type, take_all>;
using draft = draft_transformer<cpu::exact, cpu::exact, cpu::exact::cache_type, take_all>;

void decode(numerics::digest& into, const cpu::exact& ops) {
    using drafter_type = dflash_drafter<draft, target, take_all>;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        target big(pair.target, pair.target_tensors, pair.draft.taps, ops, {}, take_all(into));
        draft small(pair.draft, pair.draft_tensors, ops, {}, take_all(into));
        drafter_type drafter(small, big, take_all(into));
        speculative_decoder<target, drafter_type, greedy, sample_and_match, fixed_block, take_all> decoder(
            big, drafter, fixed_block(static_cast<index>(1 + seed)), {}, {}, take_all(into));
        std::vector<token_id> prompt;
        for (index i = 0; i < (seed == 12 ? 300 : 3); ++i) {
            prompt.push_back(static_cast<token_id>(i % pair.target.vocab_size));
        }
        generation_limits limits;
        limits.max_new_tokens = 24;
        decoder.generate(prompt, limits);
        const auto layer = decoder.cache().layer(0, decoder.cache().length());
        for (index p = 0; p < layer.length(); ++p) {
            for (index d = 0; d < layer.head_dim(); ++d) {
                const float pair_of[2] = {layer.key(0, p, d), layer.value(0, p, d)};
                into.add(pair_of);
            }
        }
    }
}

/// Scales are powers of two.
void multiply(numerics::digest& into, const cpu::exact& ops, float weight_scale, float input_scale) {
    random_source random(77);
    for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
        for (const index k : {1, 31, 128, 130, 300}) {
            const index n = 45;
            std::vector<std::byte> bytes(static_cast<std::size_t>(n * k * size_of(type)));
            for (index i = 0; i < n * k; ++i) {
                const float x = random.normal() * (i % 7 == 0 ? 1e4F : 1e-3F) * weight_scale;
                const std::uint16_t half = type == dtype::bf16 ? numerics::to_bf16(x).bits : numerics::to_f16(x).bits;
                std::byte* at = bytes.data() + i * size_of(type);
                type == dtype::f32 ? std::memcpy(at, &x, 4) : std::memcpy(at, &half, 2);
            }
            const tensor_view stored{type, bytes.data(), n, k};
            const auto packed = ops.pack({&stored, 1}, {});
            buffer<float> x(17 * k);
            buffer<float> y(17 * n);
            for (index i = 0; i < 17 * k; ++i) {
                x[i] = random.normal() * input_scale;
            }
            ops.linear(matrix_view<const float>(x.data(), 17, k), packed, y.matrix(17, n));
            into.add(std::span<const float>(y.data(), static_cast<std::size_t>(17 * n)));
        }
    }
}

void functions(numerics::digest& into) {
    for (std::uint32_t i = 0; i < 40000; ++i) {
        const float x = numerics::from_bits(i * 107371U);
        const float values[] = {numerics::exp(x),  numerics::log(x),  numerics::log1p(x),
                                numerics::tanh(x), numerics::silu(x), numerics::gumbel(i * 107371U)};
        into.add(values);
    }
}

std::uint64_t everything(const cpu::exact& ops) {
    numerics::digest digest;
    functions(digest);
    multiply(digest, ops, 1.0F, 1.0F);
    if (ops.activation() == activation_type::bf16) {
        multiply(digest, ops, 0x1p-30F, 0x1p-40F);  // both on either side of 2^-40
    }
    decode(digest, ops);
    return digest.value();
}

/// Pairs whose rotary tables are scaled in every way, decoded under both rules.
void sample_texts(numerics::digest& into, const cpu::exact& ops) {
    const std::vector<sampling_options> settings = sampling_settings();
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        numerics::rope_parameters& rope = pair.target.rope;
        rope.kind = static_cast<numerics::rope_scaling_kind>(seed % 4);
        rope.factor = 3.0;
        rope.original_max_position = 16.0;
        pair.draft.rope = rope;
        target big(pair.target, pair.target_tensors, pair.draft.taps, ops, {}, take_all(into));
        draft small(pair.draft, pair.draft_tensors, ops, {}, take_all(into));
        sampling_options options = settings[seed % settings.size()];
        options.biases.clear();  // vocabularies differ
        sample_text<sample_and_match, coupled_drafts<>>(into, big, small, options);
        sample_text<rejection_sampling<>, sampled_drafts<>>(into, big, small, options);
    }
}

std::uint64_t sampling(const cpu::exact& ops) {
    numerics::digest digest;
    sample_rows(digest);
    sample_texts(digest, ops);
    return digest.value();
}

std::uint64_t rotary_tables(const cpu::exact& ops) {
    numerics::digest digest;
    rotary(digest, ops);
    return digest.value();
}

/// What has a digest, and over which thread counts.
struct subject {
    const char* name;
    std::uint64_t (*digest)(const cpu::exact&);
    activation_type activation;
    std::vector<int> threads;
};

/// The digest of one subject for every instruction set; returns whether all are the expected one.
bool all_equal(const subject& what, const std::string& expected) {
    bool equal = true;
    std::string first = expected;
    for (const cpu::isa set : {cpu::isa::scalar, cpu::isa::avx2, cpu::isa::avx512, cpu::isa::avx512_bf16,
                               cpu::isa::neon, cpu::isa::native}) {
        if (cpu::detail::find_kernels(set) == nullptr) {
            continue;
        }
        for (const int threads : what.threads) {
            const cpu::exact ops({.threads = threads, .force = set, .activation = what.activation});
            char text[32];
            std::snprintf(text, sizeof text, "%016" PRIx64, what.digest(ops));
            std::printf("%-8s  %-11s %d threads  %s\n", what.name, std::string(cpu::name_of(set)).c_str(), threads,
                        text);
            first = first.empty() ? text : first;
            equal = equal && first == text;
        }
    }
    return equal;
}

int run(const char* expected_file) {
    const subject subjects[] = {{"f32", everything, activation_type::f32, {1, 3}},
                                {"bf16", everything, activation_type::bf16, {1, 3}},
                                {"sampling", sampling, activation_type::f32, {2}},
                                {"rotary", rotary_tables, activation_type::f32, {2}}};
    std::FILE* file = expected_file != nullptr ? std::fopen(expected_file, "r") : nullptr;
    bool equal = true;
    for (const subject& what : subjects) {
        char expected[32] = "";
        if (expected_file != nullptr && (file == nullptr || std::fscanf(file, "%31s", expected) != 1)) {
            std::fprintf(stderr, "cannot read the digest of %s in %s\n", what.name, expected_file);
            return 1;
        }
        equal = all_equal(what, expected) && equal;
    }
    if (file != nullptr) {
        std::fclose(file);
    }
    std::printf("%s\n", equal ? "equal" : "DIFFERENT");
    return equal ? 0 : 1;
}

}  // namespace
}  // namespace dflash::test

int main(int argc, char** argv) {
    return dflash::test::run(argc > 1 ? argv[1] : nullptr);
}
