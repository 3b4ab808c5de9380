// Every exact kernel on threads of the system, one for each CUDA thread: the same bits, and nothing for the thread
// sanitizer to say (this program is part of the tsan preset).
#include <array>
#include <span>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/cuda/sampling.hpp>
#include <dflash/cuda/shim/settings.hpp>
#include <dflash/decode/acceptance.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support.hpp"
#include "support/random_model.hpp"

namespace cuda_tests {

namespace {

namespace cuda = dflash::cuda;

struct on_threads {
    cuda::shim::options before = cuda::shim::settings;
    on_threads() { cuda::shim::settings.engine = cuda::shim::engine::threads; }
    ~on_threads() { cuda::shim::settings = before; }
};

}  // namespace

TEST_CASE("operations on threads of the system: linear of several chunks and warps, norms of several chunks") {
    const on_threads guard;
    const cuda::exact ops;
    const dflash::cpu::exact host({.threads = 1});
    noise random(1);
    for (const auto type : {dflash::dtype::f32, dflash::dtype::bf16, dflash::dtype::f16}) {
        for (const index rows : {1, 2, 4, 8, 16, 17}) {
            const index k = 400;
            stored w(type, 40, k);
            stored bias(dflash::dtype::f32, 1, 40);
            w.fill(random, content::plain);
            bias.fill(random, content::plain);
            matrix x(rows, k);
            x.fill(random, content::plain);
            const std::array parts = {w.view()};
            const std::array biases = {bias.view()};
            matrix right(rows, 40);
            host.linear(x.view(), host.pack(parts, biases), right.view());
            const auto packed = ops.pack(parts, biases);
            device_matrix in(ops, x);
            device_matrix out(ops, rows, 40);
            ops.linear(in.view(), packed, out.view());
            CAPTURE(rows);
            CHECK(differing(out.host(ops), right) == 0);
        }
    }
    stored w(dflash::dtype::f32, 1, 700);
    w.fill(random, content::plain);
    matrix x(2, 700);
    x.fill(random, content::plain);
    matrix right(2, 700);
    host.rms_norm(x.view(), host.pack_vector(w.view()), 1e-6F, right.view());
    device_matrix on(ops, x);
    ops.rms_norm(on.view(), ops.pack_vector(w.view()), 1e-6F, on.view());
    CHECK(differing(on.host(ops), right) == 0);
}

TEST_CASE("a pair on threads of the system: forwards, drafts and a verdict") {
    const on_threads guard;
    dflash::test::random_pair pair;
    dflash::test::make_random_pair(pair, 11);
    const cuda::exact ops;
    const dflash::cpu::exact cpu_ops({.threads = 1});
    dflash::target_transformer<dflash::cpu::exact> host(pair.target, pair.target_tensors, pair.draft.taps, cpu_ops);
    dflash::target_transformer<cuda::exact> device(pair.target, pair.target_tensors, pair.draft.taps, ops);
    dflash::draft_transformer<dflash::cpu::exact> host_draft(pair.draft, pair.draft_tensors, cpu_ops);
    dflash::draft_transformer<cuda::exact> device_draft(pair.draft, pair.draft_tensors, ops);
    const index vocab = pair.target.vocab_size;
    const index width = host.feature_size();
    const index m = 5;
    auto host_cache = host.make_cache(12);
    auto device_cache = device.make_cache(12);
    auto host_context = host_draft.make_cache(12);
    auto device_context = device_draft.make_cache(12);
    dflash::buffer<float> logits(m * vocab);
    dflash::buffer<float> features(m * width);
    dflash::buffer<float, device_space> device_logits(m * vocab);
    dflash::buffer<float, device_space> device_features(m * width);
    dflash::buffer<dflash::token_id, cuda::pinned_space> tokens(m);
    for (int round = 0; round < 2; ++round) {
        for (index i = 0; i < m; ++i) {
            tokens[i] = static_cast<dflash::token_id>((i * 7 + round) % vocab);
        }
        const std::span<const dflash::token_id> ids(tokens.data(), static_cast<std::size_t>(m));
        host.forward(ids, host_cache, {logits.matrix(m, vocab), features.matrix(m, width)});
        device.forward(ids, device_cache, {device_logits.matrix(m, vocab), device_features.matrix(m, width)});
        host_draft.inject(features.matrix(m, width), host_context);
        device_draft.inject(device_features.matrix(m, width), device_context);
        matrix right(2, pair.draft.hidden_size);
        matrix embedded(2, pair.draft.hidden_size);
        host.embed(ids.first(2), embedded.view());
        host_draft.forward(embedded.view(), host_context, right.view());
        device_matrix in(ops, 2, pair.draft.hidden_size);
        device_matrix out(ops, 2, pair.draft.hidden_size);
        device.embed(ids.first(2), in.view());
        device_draft.forward(in.view(), device_context, out.view());
        CHECK(differing(out.host(ops), right) == 0);

        const cuda::sample_and_match rule(ops);
        const dflash::categorical<> sampler({.temperature = 1.0F});
        dflash::categorical<> keyed = sampler;
        keyed.reseed({3});
        const auto expected = dflash::sample_and_match{}.accept(
            {.drafts = ids.first(4), .logits = logits.matrix(m, vocab), .draft_law = {}, .position = 4, .noise = {3}},
            keyed);
        const auto got = rule.accept({.drafts = ids.first(4),
                                      .logits = device_logits.matrix(m, vocab),
                                      .draft_law = {},
                                      .position = 4,
                                      .noise = {3}},
                                     sampler);
        CHECK(got.accepted == expected.accepted);
        CHECK(got.next == expected.next);
    }
}

}  // namespace cuda_tests
