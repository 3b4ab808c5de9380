// The whole loop on the CUDA backend: every token, logit and feature equals the CPU backend's, whatever the draft, with
// graphs recorded and replayed; one wait a round.
#include <algorithm>
#include <memory>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/cuda/sampling.hpp>
#include <dflash/cuda/shim/machine.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "support.hpp"
#include "support/property.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using cuda_tests::content;
using cuda_tests::device_matrix;
using cuda_tests::differing;
using cuda_tests::matrix;
using cuda_tests::noise;

template <class Ops>
struct loaded {
    using target_type = target_transformer<Ops>;
    using draft_type = draft_transformer<Ops>;

    Ops ops;
    target_type target;
    draft_type draft;

    explicit loaded(const random_pair& pair, Ops backend)
        : ops(std::move(backend)),
          target(pair.target, pair.target_tensors, pair.draft.taps, ops),
          draft(pair.draft, pair.draft_tensors, ops) {}
};

std::vector<token_id> random_prompt(random_source& random, index length, index vocab) {
    std::vector<token_id> tokens;
    for (index i = 0; i < length; ++i) {
        tokens.push_back(static_cast<token_id>(random.between(0, vocab - 1)));
    }
    return tokens;
}

std::vector<float> host_copy(const cuda::exact& ops, const float* from, index count) {
    std::vector<float> to(static_cast<std::size_t>(count));
    cuda::runtime::copy(to.data(), from, to.size() * sizeof(float), ops.context().stream());
    ops.wait();
    return to;
}

void compare_forwards(std::uint64_t seed) {
    random_pair pair;
    make_random_pair(pair, seed);
    random_source random(seed);
    loaded<cpu::exact> host(pair, cpu::exact({.threads = 1}));
    loaded<cuda::exact> device(pair, cuda::exact());
    const index vocab = pair.target.vocab_size;
    const index width = host.target.feature_size();
    auto host_cache = host.target.make_cache(340);
    auto device_cache = device.target.make_cache(340);
    buffer<float> logits(64 * vocab);
    buffer<float> features(64 * width);
    buffer<float, cuda::device_space> device_logits(64 * vocab);
    buffer<float, cuda::device_space> device_features(64 * width);
    buffer<token_id, cuda::pinned_space> pinned(64);
    for (int call = 0; call < 40 && host_cache.length() < 300; ++call) {
        // Few sizes, so that graphs are replayed; sometimes a crop.
        const index sizes[] = {1, 4, 9, 32};
        const index m = sizes[random.between(0, 3)];
        if (host_cache.length() + m > 320) {
            break;
        }
        const std::vector<token_id> tokens = random_prompt(random, m, vocab);
        std::copy(tokens.begin(), tokens.end(), pinned.data());
        host.target.forward(tokens, host_cache, {logits.matrix(m, vocab), features.matrix(m, width)});
        device.target.forward({pinned.data(), tokens.size()}, device_cache,
                              {device_logits.matrix(m, vocab), device_features.matrix(m, width)});
        INFO(replay(seed));
        CAPTURE(call);
        REQUIRE(differing(host_copy(device.ops, device_logits.data(), m * vocab).data(), logits.data(), m * vocab) ==
                0);
        REQUIRE(differing(host_copy(device.ops, device_features.data(), m * width).data(), features.data(),
                          m * width) == 0);
        if (random.chance(30)) {
            const index kept = host_cache.length() - random.between(0, m);
            host_cache.crop(kept);
            device_cache.crop(kept);
        }
    }
}

/// Every end of a text comes up.
generation_limits limits_of(random_source& random, index prompt, index vocab) {
    const auto token = [&] { return static_cast<token_id>(random.between(0, vocab - 1)); };
    generation_limits limits;
    limits.max_new_tokens = random.between(20, 60);
    limits.prefill_chunk = random.between(1, 40);
    if (random.chance(30)) {
        limits.stop_tokens = {token(), token()};
    }
    if (random.chance(30)) {
        limits.stop_sequences = {{token(), token()}};
    }
    if (random.chance(30)) {
        limits.context_limit = prompt + random.between(1, 30);
    }
    return limits;
}

/// The whole loop with one sampler on both sides; and serial decoding on the device.
template <class Sampler, class HostChoice>
void compare_runs(std::uint64_t seed, const Sampler& sampler, HostChoice host_choice, const sampling_options* coupled) {
    random_pair pair;
    make_random_pair(pair, seed);
    random_source random(seed ^ 0x77U);
    loaded<cpu::exact> host(pair, cpu::exact({.threads = 1}));
    loaded<cuda::exact> device(pair, cuda::exact());
    const std::vector<token_id> prompt = random_prompt(
        random, random.chance(25) ? random.between(200, 290) : random.between(1, 40), pair.target.vocab_size);
    const generation_limits limits = limits_of(random, size_of(std::span(prompt)), pair.target.vocab_size);
    const noise_key key{seed};
    const fixed_block block(pair.draft.block_size);

    dflash_drafter<draft_transformer<cpu::exact>, target_transformer<cpu::exact>, no_observer, HostChoice> host_drafter(
        host.draft, host.target, {}, std::move(host_choice));
    speculative_decoder<target_transformer<cpu::exact>, decltype(host_drafter), Sampler> host_decoder(
        host.target, host_drafter, block, sampler);
    const generation_result right = host_decoder.generate(prompt, limits, key);

    cuda::draft_choice choice =
        coupled != nullptr ? cuda::draft_choice(device.ops, *coupled) : cuda::draft_choice(device.ops);
    dflash_drafter<draft_transformer<cuda::exact>, target_transformer<cuda::exact>, no_observer, cuda::draft_choice>
        drafter(device.draft, device.target, {}, choice);
    speculative_decoder<target_transformer<cuda::exact>, decltype(drafter), Sampler, cuda::sample_and_match> decoder(
        device.target, drafter, block, sampler, cuda::sample_and_match(device.ops));
    INFO(replay(seed));
    for (int again = 0; again < 2; ++again) {  // the second time with graphs
        const generation_result got = decoder.generate(prompt, limits, key);
        REQUIRE(got.tokens == right.tokens);
        CHECK(got.reason == right.reason);
        CHECK(got.stats.acceptance_lengths == right.stats.acceptance_lengths);
    }
    serial_decoder<target_transformer<cuda::exact>, Sampler, cuda::sample_and_match> serial(
        device.target, sampler, cuda::sample_and_match(device.ops));
    CHECK(serial.generate(prompt, limits, key).tokens == right.tokens);
}

/// Puts the simulator's settings back.
struct with_settings {
    cuda::shim::options before = cuda::shim::settings;
    ~with_settings() { cuda::shim::settings = before; }
};

}  // namespace

TEST_CASE("forwards give the CPU's logits and features, eager and replayed, for any grouping and after crops") {
    MESSAGE("first seed " << first_seed());
    for (index i = 0; i < cases(24); ++i) {
        compare_forwards(first_seed() + static_cast<std::uint64_t>(i));
    }
}

TEST_CASE("a draft whose layers are stored in different types: rounding of a layer's inputs is its own affair") {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 60 && compared < 6; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        layer_weights& first = pair.draft_tensors.layers[0];
        if (pair.draft.layers < 2 || first.k.type != dtype::bf16 || first.v.type != dtype::bf16) {
            continue;
        }
        ++compared;
        const auto keys = cpu::exact().pack_vector(first.k);  // all elements, widened
        const auto values = cpu::exact().pack_vector(first.v);
        first.k = {dtype::f32, reinterpret_cast<const std::byte*>(keys.data()), first.k.rows, first.k.cols};
        first.v = {dtype::f32, reinterpret_cast<const std::byte*>(values.data()), first.v.rows, first.v.cols};

        const cuda::exact ops({.activation = activation_type::bf16});
        draft_transformer<cpu::exact> host(pair.draft, pair.draft_tensors,
                                           cpu::exact({.threads = 1, .activation = activation_type::bf16}));
        draft_transformer<cuda::exact> device(pair.draft, pair.draft_tensors, ops);
        noise random(seed);
        matrix features(5, host.feature_size());
        matrix block(3, host.hidden_size());
        features.fill(random, content::wide);
        block.fill(random, content::wide);
        device_matrix device_features(ops, features);
        device_matrix device_block(ops, block);

        matrix right(3, host.hidden_size());
        auto host_cache = host.make_cache(8);
        host.inject(features.view(), host_cache);
        host.forward(block.view(), host_cache, right.view());
        device_matrix hidden(ops, 3, host.hidden_size());
        auto device_cache = device.make_cache(8);
        device.inject(device_features.view(), device_cache);
        device.forward(device_block.view(), device_cache, hidden.view());
        CAPTURE(seed);
        CHECK(differing(hidden.host(ops).row(0), right.row(0), 3 * host.hidden_size()) == 0);
    }
    CHECK(compared == 6);
}

TEST_CASE("the loop gives the CPU's tokens and acceptance lengths") {
    MESSAGE("first seed " << first_seed());
    const with_settings guard;
    for (index i = 0; i < cases(16); ++i) {
        const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
        cuda::shim::settings.lazy = i % 2 == 1;  // nothing is there before it has been waited for
        compare_runs(seed, greedy{}, argmax_drafts{}, nullptr);
        const sampling_options warm{.temperature = 0.9F};
        compare_runs(seed, categorical<>(warm), coupled_drafts<>(warm), &warm);
        compare_runs(seed, categorical<>(warm), argmax_drafts{}, nullptr);
    }
}

TEST_CASE("a round waits once and copies nothing back") {
    random_pair pair;
    make_random_pair(pair, 3);
    loaded<cuda::exact> device(pair, cuda::exact());
    dflash_drafter<draft_transformer<cuda::exact>, target_transformer<cuda::exact>, no_observer, cuda::draft_choice>
        drafter(device.draft, device.target, {}, cuda::draft_choice(device.ops));
    speculative_decoder<target_transformer<cuda::exact>, decltype(drafter), greedy, cuda::sample_and_match> decoder(
        device.target, drafter, fixed_block(pair.draft.block_size), {}, cuda::sample_and_match(device.ops));
    const std::vector<token_id> prompt = {0, 1, 2};
    generation_limits limits;
    limits.max_new_tokens = 200;
    static_cast<void>(decoder.generate(prompt, limits));  // everything is allocated and recorded
    decoder.prime(prompt, limits);
    cuda::shim::reset_counts();
    index rounds = 0;
    while (!decoder.step().empty()) {
        ++rounds;
    }
    const cuda::shim::statistics seen = cuda::shim::counts();
    REQUIRE(rounds > 10);
    CHECK(seen.waits == static_cast<std::uint64_t>(rounds));
    CHECK(seen.device_to_host.count == 0);
    CHECK(seen.host_to_device.count == 0);
    CHECK(seen.graph_launches >= static_cast<std::uint64_t>(2 * rounds));
}

TEST_CASE("a drafter whose memory was not to be had works when it is") {
    random_pair pair;
    make_random_pair(pair, 3);
    loaded<cuda::exact> device(pair, cuda::exact());
    const std::vector<token_id> prompt = {0, 1, 2};
    generation_limits limits;
    limits.max_new_tokens = 20;
    using drafter_type = dflash_drafter<draft_transformer<cuda::exact>, target_transformer<cuda::exact>, no_observer,
                                        cuda::draft_choice>;
    const auto decode = [&](drafter_type& drafter) {
        speculative_decoder<target_transformer<cuda::exact>, drafter_type, greedy, cuda::sample_and_match> decoder(
            device.target, drafter, fixed_block(4), {}, cuda::sample_and_match(device.ops));
        return decoder.generate(prompt, limits).tokens;
    };
    drafter_type untroubled(device.draft, device.target, {}, cuda::draft_choice(device.ops));
    const std::vector<token_id> right = decode(untroubled);

    // With ever more memory, so that every allocation fails once.
    const with_settings guard;
    drafter_type drafter(device.draft, device.target, {}, cuda::draft_choice(device.ops));
    index refused = 0;
    bool enough = false;
    for (std::size_t more = 0; !enough; more += 4096) {
        cuda::shim::settings.device_memory = cuda::shim::live_allocations().bytes + more;
        try {
            const std::vector<token_id> got = decode(drafter);
            enough = true;
            CHECK(got == right);
        } catch (const backend_error&) {
            ++refused;
        }
    }
    cuda::shim::settings = guard.before;
    CHECK(refused > 2);
    CHECK(decode(drafter) == right);
}

TEST_CASE("a cache has an identity of its own, wherever its memory lies: no graph of another one fits it") {
    // Keys can come to lie where another cache's were, and values elsewhere: an address does not tell caches apart.
    std::uint64_t last = 0;
    for (int use = 0; use < 20; ++use) {
        cuda::device_cache made(1, 1, 4, 24);
        CHECK(made.identity() > last);
        last = made.identity();
        const cuda::device_cache moved = std::move(made);
        CHECK(moved.identity() == last);
    }
    cuda::device_cache grown(1, 1, 4, 24);
    const std::uint64_t before = grown.identity();
    grown.reserve(20);
    CHECK(grown.identity() == before);
    grown.reserve(300);
    CHECK(grown.identity() > before);
}

TEST_CASE("one model over two caches and into rows of two strides, in turn: every replay is the right one") {
    random_pair pair;
    make_random_pair(pair, 4);
    const cuda::exact ops;
    target_transformer<cpu::exact> host(pair.target, pair.target_tensors);
    target_transformer<cuda::exact> device(pair.target, pair.target_tensors, std::span<const index>{}, ops);
    const index vocab = pair.target.vocab_size;
    buffer<token_id, cuda::pinned_space> tokens(2);
    buffer<float> logits(2 * vocab);
    buffer<float, cuda::device_space> device_logits(2 * vocab + 3);
    std::vector<contiguous_cache<float>> host_caches;
    std::vector<cuda::device_cache> device_caches;
    for (int i = 0; i < 2; ++i) {
        host_caches.push_back(host.make_cache(24));
        device_caches.push_back(device.make_cache(24));
    }
    for (int step = 0; step < 12; ++step) {
        const auto which = static_cast<std::size_t>(step % 2);
        const index gap = step / 2 % 2 * 3;
        tokens[0] = static_cast<token_id>(step % vocab);
        tokens[1] = static_cast<token_id>((7 * step + 1) % vocab);
        host.forward({tokens.data(), 2}, host_caches[which], {logits.matrix(2, vocab), {}});
        device.forward({tokens.data(), 2}, device_caches[which],
                       {matrix_view<float, cuda::device_space>(device_logits.data(), 2, vocab, vocab + gap), {}});
        const std::vector<float> got = host_copy(ops, device_logits.data(), 2 * vocab + gap);
        CAPTURE(step);
        REQUIRE(differing(got.data(), logits.data(), vocab) == 0);
        REQUIRE(differing(got.data() + vocab + gap, logits.data() + vocab, vocab) == 0);
    }
}

TEST_CASE("models that come and go at the same address share no graph") {
    const cuda::exact ops;
    buffer<token_id, cuda::pinned_space> token(1);
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
        random_pair pair;
        make_random_pair(pair, seed);
        const auto host = std::make_unique<target_transformer<cpu::exact>>(pair.target, pair.target_tensors);
        const auto device = std::make_unique<target_transformer<cuda::exact>>(pair.target, pair.target_tensors,
                                                                              std::span<const index>{}, ops);
        auto host_cache = host->make_cache(8);
        auto device_cache = device->make_cache(8);
        const index vocab = pair.target.vocab_size;
        buffer<float> logits(vocab);
        buffer<float, cuda::device_space> device_logits(vocab);
        for (int step = 0; step < 5; ++step) {
            host->forward({token.data(), 1}, host_cache, {logits.matrix(1, vocab), {}});
            device->forward({token.data(), 1}, device_cache, {device_logits.matrix(1, vocab), {}});
            REQUIRE(differing(host_copy(ops, device_logits.data(), vocab).data(), logits.data(), vocab) == 0);
        }
    }
}

TEST_CASE("without a device there is a sentence") {
    const with_settings guard;
    cuda::shim::settings.devices = 0;
    CHECK_THROWS_WITH_AS(cuda::exact(), doctest::Contains("no device was found"), backend_error);
}

}  // namespace dflash::test
