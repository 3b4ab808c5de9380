// The fast CUDA tier in the simulator: products within the bound of their sums, all else with the exact tier's bits,
// whole forwards close to the exact ones, the same bits from every run, and no losslessness that it does not claim.
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/cuda/fast.hpp>
#include <dflash/cuda/sampling.hpp>
#include <dflash/cuda/shim/machine.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/numerics/linear.hpp>

#include "support.hpp"
#include "support/property.hpp"
#include "support/random_model.hpp"

namespace dflash::test {
namespace {

using cuda_tests::content;
using cuda_tests::device_matrix;
using cuda_tests::device_space;
using cuda_tests::differing;
using cuda_tests::matrix;
using cuda_tests::noise;
using cuda_tests::stored;

static_assert(cuda::fast::guarantee == determinism::run_to_run);
static_assert(target_transformer<cuda::fast>::guarantee == determinism::run_to_run);
static_assert(draft_transformer<cuda::fast>::guarantee == determinism::run_to_run);

matrix product(const cuda::fast& ops, const matrix& x, std::span<const tensor_view> parts,
               std::span<const tensor_view> biases = {}) {
    const auto w = ops.pack(parts, biases);
    device_matrix in(ops, x);
    device_matrix out(ops, x.rows(), w.rows(), 3);
    ops.linear(in.view(), w, out.view());
    const matrix y = out.host(ops);
    REQUIRE(y.padding_intact());
    return y;
}

matrix filled(index rows, index cols, std::uint64_t seed, content kind = content::plain, index padding = 0) {
    noise random(seed);
    matrix m(rows, cols, padding);
    m.fill(random, kind);
    return m;
}

/// Any order of k f32 additions of products without rounding errors is within (k - 1) u of the sum of magnitudes, to
/// first order; numerics' order as well, and a bias adds one rounding each. u = 2^-24, the factor covers higher orders.
void check_product(const matrix& y, const matrix& x, const stored& w, const float* bias) {
    const index k = x.cols();
    const std::vector<float> wide = w.widened();
    std::vector<float> rounded(static_cast<std::size_t>(k));
    std::vector<float> right(static_cast<std::size_t>(y.cols()));
    for (index r = 0; r < x.rows(); ++r) {
        for (index c = 0; c < k; ++c) {
            rounded[static_cast<std::size_t>(c)] = numerics::to_float(numerics::to_bf16(x.row(r)[c]));
        }
        numerics::linear(wide.data(), bias, rounded.data(), k, y.cols(), right.data());
        for (index o = 0; o < y.cols(); ++o) {
            double magnitudes = bias != nullptr ? 2.0 * std::fabs(static_cast<double>(bias[o])) : 0.0;
            for (index c = 0; c < k; ++c) {
                magnitudes += std::fabs(static_cast<double>(wide[static_cast<std::size_t>(o * k + c)]) *
                                        static_cast<double>(rounded[static_cast<std::size_t>(c)]));
            }
            const double bound = 1.01 * 2.0 * static_cast<double>(k) * 0x1p-24 * magnitudes +
                                 static_cast<double>(k) * 0x1p-149;  // subnormal sums
            const double off =
                std::fabs(static_cast<double>(y.row(r)[o]) - static_cast<double>(right[static_cast<std::size_t>(o)]));
            CAPTURE(r);
            CAPTURE(o);
            REQUIRE(off <= bound);
        }
    }
}

/// The next pair from the seed on whose matrices are bf16.
std::uint64_t make_bf16_pair(std::optional<random_pair>& pair, std::uint64_t seed) {
    for (;; ++seed) {
        pair.emplace();
        make_random_pair(*pair, seed);
        if (pair->target_tensors.embedding.type == dtype::bf16) {
            return seed;
        }
    }
}

std::vector<float> host_copy(const cuda::exact& ops, const float* from, index count) {
    std::vector<float> to(static_cast<std::size_t>(count));
    cuda::runtime::copy(to.data(), from, to.size() * sizeof(float), ops.context().stream());
    ops.wait();
    return to;
}

std::vector<token_id> random_tokens(random_source& random, index length, index vocab) {
    std::vector<token_id> tokens;
    for (index i = 0; i < length; ++i) {
        tokens.push_back(static_cast<token_id>(random.between(0, vocab - 1)));
    }
    return tokens;
}

/// A target with a cache, and the logits and features of its forwards.
template <class Ops>
struct runner {
    Ops ops;
    target_transformer<Ops> target;
    cuda::device_cache cache;
    index vocab;
    index width;
    buffer<float, device_space> logits;
    buffer<float, device_space> features;

    runner(const random_pair& pair, Ops backend)
        : ops(std::move(backend)),
          target(pair.target, pair.target_tensors, pair.draft.taps, ops),
          cache(target.make_cache(340)),
          vocab(pair.target.vocab_size),
          width(target.feature_size()),
          logits(64 * vocab),
          features(64 * width) {}

    /// Logits and features, one after the other.
    std::vector<float> forward(std::span<const token_id> tokens) {
        const index m = size_of(tokens);
        target.forward(tokens, cache, {logits.matrix(m, vocab), features.matrix(m, width)});
        std::vector<float> got = host_copy(ops, logits.data(), m * vocab);
        const std::vector<float> more = host_copy(ops, features.data(), m * width);
        got.insert(got.end(), more.begin(), more.end());
        return got;
    }
};

/// Puts the simulator's settings back.
struct with_settings {
    cuda::shim::options before = cuda::shim::settings;
    ~with_settings() { cuda::shim::settings = before; }
};

template <class Target, class Draft, determinism Required, class Sampler = greedy>
struct decoding {
    using drafter_type = dflash_drafter<Draft, Target, no_observer, cuda::draft_choice>;
    drafter_type drafter;
    speculative_decoder<Target, drafter_type, Sampler, cuda::sample_and_match, fixed_block, no_observer, Required>
        decoder;

    decoding(Target& target, Draft& draft, const Sampler& sampler, cuda::draft_choice choice)
        : drafter(draft, target, {}, std::move(choice)),
          decoder(target, drafter, fixed_block(draft.shape().block_size), sampler,
                  cuda::sample_and_match(target.backend())) {}
};

}  // namespace

TEST_CASE("fast linear: within the bound of its sums, for odd sizes, one row and many, with strides") {
    const cuda::fast ops;
    std::uint64_t seed = 0;
    for (const index k : {1, 7, 8, 9, 16, 129, 600}) {
        for (const index n : {1, 31, 70}) {
            for (const index rows : {1, 2, 9, 33}) {
                ++seed;
                noise random(seed);
                stored w(dtype::bf16, n, k);
                w.fill(random, static_cast<content>(seed % 4));
                matrix x(rows, k, seed % 2 == 0 ? 5 : 0);
                x.fill(random, static_cast<content>(seed / 4 % 4));
                const std::array parts = {w.view()};
                CAPTURE(k);
                CAPTURE(n);
                CAPTURE(rows);
                check_product(product(ops, x, parts), x, w, nullptr);
            }
        }
    }
}

TEST_CASE("fast linear: parts are stacked, each with its bias of any type") {
    const cuda::fast ops;
    const index k = 131;
    noise random(5);
    stored a(dtype::bf16, 33, k);
    stored b(dtype::bf16, 7, k);
    stored a_bias(dtype::f16, 1, 33);
    stored b_bias(dtype::f32, 1, 7);
    for (stored* s : {&a, &b, &a_bias, &b_bias}) {
        s->fill(random, content::plain);
    }
    const std::array parts = {a.view(), b.view()};
    const std::array biases = {a_bias.view(), b_bias.view()};
    for (const index rows : {1, 4}) {
        const matrix x = filled(rows, k, 6);
        const matrix y = product(ops, x, parts, biases);
        matrix first(rows, 33);
        matrix second(rows, 7);
        for (index r = 0; r < rows; ++r) {
            std::copy_n(y.row(r), 33, first.row(r));
            std::copy_n(y.row(r) + 33, 7, second.row(r));
        }
        check_product(first, x, a, a_bias.widened().data());
        check_product(second, x, b, b_bias.widened().data());
    }
}

TEST_CASE("fast linear: the same call gives the same bits, another number of rows gives others") {
    const cuda::fast ops;
    noise random(8);
    stored w(dtype::bf16, 40, 300);
    w.fill(random, content::plain);
    const matrix x = filled(5, 300, 9);
    matrix first_row(1, 300);
    std::copy_n(x.row(0), 300, first_row.row(0));
    const std::array parts = {w.view()};
    const matrix many = product(ops, x, parts);
    const matrix one = product(ops, first_row, parts);
    CHECK(differing(product(ops, x, parts), many) == 0);
    CHECK(differing(product(cuda::fast(), first_row, parts), one) == 0);
    // What the guarantee leaves out is there in the simulator, too.
    CHECK(differing(one.row(0), many.row(0), 40) > 0);
}

TEST_CASE("fast: what is no product has the exact tier's bits") {
    const cuda::exact exact;
    const cuda::fast fast(exact);
    CHECK(fast.context().stream() == exact.context().stream());
    noise random(11);
    const index e = 16;
    stored table(dtype::bf16, 70, 37);
    table.fill(random, content::wide);
    stored scales(dtype::f16, 1, 2 * e);
    scales.fill(random, content::plain);
    stored head_scales(dtype::f32, 1, e);
    head_scales.fill(random, content::plain);
    const numerics::rope_table angles({}, e, 60);
    const matrix x = filled(9, 2 * e, 12, content::plain, 3);
    const matrix values = filled(9, 2 * e, 13);

    const auto run = [&](const auto& ops) {
        std::vector<matrix> results;
        const auto keep = [&](device_matrix& m) { results.push_back(m.host(exact)); };
        const std::array parts = {table.view()};
        const auto packed = ops.pack(parts);
        const std::array<token_id, 3> ids = {69, 0, 32};
        device_matrix rows(exact, 3, 37, 2);
        ops.gather(packed, ids, rows.view());
        keep(rows);
        buffer<token_id, cuda::pinned_space> pinned(3);
        pinned[0] = 70;
        pinned[1] = 5;
        pinned[2] = -1;
        ops.gather(packed, {pinned.data(), 3}, rows.view());
        keep(rows);
        const std::array<token_id, 1> outside = {70};
        CHECK_THROWS_WITH_AS(ops.gather(packed, outside, rows.view().rows(0, 1)), doctest::Contains("got id 70"),
                             config_error);

        device_matrix in(exact, x);
        device_matrix out(exact, 9, 2 * e, 1);
        ops.rms_norm(in.view(), ops.pack_vector(scales.view()), 1e-2F, out.view());
        keep(out);
        ops.add(out.view(), in.view());
        keep(out);
        ops.rms_norm_heads(in.view(), ops.pack_vector(head_scales.view()), 1e-2F, e);
        ops.rope(in.view(), e, angles, 7);
        keep(in);
        device_matrix half(exact, 9, e);
        ops.silu_mul(in.view(), half.view());
        keep(half);
        ops.copy(in.view(), out.view());
        keep(out);
        cuda::device_cache cache(2, 1, 2 * e, 20);
        device_matrix v(exact, values);
        ops.write(cache, 1, 0, in.view(), v.view());
        ops.attend({in.view(), cache.layer(1, 9), out.view(), 1, 1, 2 * e, 0, {.causal = true}, 0.25F});
        keep(out);
        return results;
    };
    const std::vector<matrix> right = run(exact);
    const std::vector<matrix> got = run(fast);
    REQUIRE(got.size() == right.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(differing(got[i], right[i]) == 0);
        CHECK(got[i].padding_intact());
    }
}

TEST_CASE("fast: forwards stay close to the exact ones") {
    double worst_logit = 0;
    double worst_feature = 0;
    double sum = 0;
    for (std::uint64_t seed = 1, done = 0; done < 12; ++seed, ++done) {
        std::optional<random_pair> pair;
        seed = make_bf16_pair(pair, seed);
        random_source random(seed);
        runner<cuda::exact> exact(*pair, cuda::exact());
        runner<cuda::fast> fast(*pair, cuda::fast());
        const tensor_view head = pair->target.tied_head ? pair->target_tensors.embedding : pair->target_tensors.head;
        const index d = pair->target.hidden_size;
        for (const index m : {1, 9, 1, 33}) {
            const std::vector<token_id> tokens = random_tokens(random, m, exact.vocab);
            const std::vector<float> right = exact.forward(tokens);
            const std::vector<float> got = fast.forward(tokens);
            for (index r = 0; r < m; ++r) {
                for (index v = 0; v < exact.vocab; ++v) {
                    // A logit is a sum of d products of a head row with a normalised row of length sqrt(d) or so.
                    double length = 0;
                    for (index c = 0; c < d; ++c) {
                        length += static_cast<double>(head.element(v, c)) * static_cast<double>(head.element(v, c));
                    }
                    const auto at = static_cast<std::size_t>(r * exact.vocab + v);
                    const double off = std::fabs(static_cast<double>(got[at]) - static_cast<double>(right[at])) /
                                       std::sqrt(length * static_cast<double>(d));
                    worst_logit = std::max(worst_logit, off);
                    sum += off;
                }
                double off = 0;
                double size = 0;
                for (index c = 0; c < exact.width; ++c) {
                    const auto at = static_cast<std::size_t>(m * exact.vocab + r * exact.width + c);
                    off += std::pow(static_cast<double>(got[at]) - static_cast<double>(right[at]), 2);
                    size += std::pow(static_cast<double>(right[at]), 2);
                }
                worst_feature = std::max(worst_feature, std::sqrt(off / size));
            }
        }
    }
    CHECK(sum > 0);  // another tier
    // Rounding an input costs up to 2^-8 of it; these models have up to three layers of four products each.
    CHECK(worst_logit < 0.02);
    CHECK(worst_feature < 0.05);
}

TEST_CASE("fast: recorded and replayed forwards give the eager bits, at every position") {
    const with_settings guard;
    for (std::uint64_t seed = 30, done = 0; done < 6; ++seed, ++done) {
        std::optional<random_pair> pair;
        seed = make_bf16_pair(pair, seed);
        cuda::shim::settings.lazy = done % 2 == 1;
        runner<cuda::fast> eager(*pair, cuda::fast());
        runner<cuda::fast> graphs(*pair, cuda::fast());
        random_source random(seed);
        buffer<token_id, cuda::pinned_space> pinned(64);
        cuda::shim::reset_counts();
        std::uint64_t replays = 0;
        std::array<int, 64> calls = {};
        for (int call = 0; call < 20 && eager.cache.length() < 280; ++call) {
            const index sizes[] = {1, 4, 32};
            const index m = sizes[random.between(0, 2)];
            const std::vector<token_id> tokens = random_tokens(random, m, eager.vocab);
            std::copy(tokens.begin(), tokens.end(), pinned.data());
            const std::vector<float> right = eager.forward(tokens);  // tokens that are copied are never replayed
            const std::vector<float> got = graphs.forward({pinned.data(), tokens.size()});
            INFO("seed " << seed);
            CAPTURE(call);
            REQUIRE(differing(got.data(), right.data(), static_cast<index>(right.size())) == 0);
            replays += ++calls[static_cast<std::size_t>(m)] > 1 ? 1U : 0U;
            if (random.chance(30)) {
                const index kept = eager.cache.length() - random.between(0, m);
                eager.cache.crop(kept);
                graphs.cache.crop(kept);
            }
        }
        CHECK(cuda::shim::counts().graph_launches > 0);
        CHECK(cuda::shim::counts().graph_launches <= replays);
    }
}

TEST_CASE("fast: a shape that is new while a stream is captured is refused, and the stream goes on") {
    const cuda::fast ops;
    noise random(3);
    stored w(dtype::bf16, 6, 16);
    w.fill(random, content::plain);
    const std::array parts = {w.view()};
    const auto packed = ops.pack(parts);
    const matrix x = filled(4, 16, 4);
    device_matrix in(ops, x);
    device_matrix out(ops, 4, 6);
    ops.linear(in.view(), packed, out.view());
    const cuda::runtime::stream s = ops.context().stream();
    cuda::runtime::begin_capture(s);
    CHECK_NOTHROW(ops.linear(in.view(), packed, out.view()));
    CHECK_THROWS_WITH_AS(ops.linear(in.view().rows(0, 3), packed, out.view().rows(0, 3)),
                         doctest::Contains("product of (3, 16) and (6, 16) transposed"), backend_error);
    cuda::runtime::abandon_capture(s);
    CHECK_NOTHROW(ops.linear(in.view().rows(0, 3), packed, out.view().rows(0, 3)));
}

TEST_CASE("fast: the loop runs with allow_numeric_drift, drafts, and repeats itself") {
    using target_type = target_transformer<cuda::fast>;
    using draft_type = draft_transformer<cuda::fast>;
    const with_settings guard;
    index accepted = 0;
    for (std::uint64_t seed = 50, done = 0; done < 6; ++seed, ++done) {
        std::optional<random_pair> pair;
        seed = make_bf16_pair(pair, seed);
        cuda::shim::settings.lazy = done % 2 == 1;
        random_source random(seed);
        const std::vector<token_id> prompt = random_tokens(random, random.between(1, 40), pair->target.vocab_size);
        const sampling_options warm{.temperature = 0.9F};
        generation_limits limits;
        limits.max_new_tokens = 40;
        std::vector<token_id> first;
        for (int run = 0; run < 2; ++run) {  // another object, and the same one with its graphs
            const cuda::fast ops;
            target_type target(pair->target, pair->target_tensors, pair->draft.taps, ops);
            draft_type draft(pair->draft, pair->draft_tensors, ops);
            decoding<target_type, draft_type, allow_numeric_drift, categorical<>> loop(
                target, draft, categorical<>(warm), cuda::draft_choice(ops, warm));
            for (int again = 0; again < 2; ++again) {
                const generation_result got = loop.decoder.generate(prompt, limits, noise_key{seed});
                REQUIRE(size_of(std::span(got.tokens)) == 40);
                CHECK(got.stats.drafted > 0);
                accepted += got.stats.accepted;
                first = first.empty() ? std::vector<token_id>(got.tokens.begin(), got.tokens.end()) : first;
                INFO("seed " << seed);
                CHECK(std::vector<token_id>(got.tokens.begin(), got.tokens.end()) == first);
            }
        }
    }
    CHECK(accepted > 0);
}

TEST_CASE("a fast draft of an exact target is lossless: the tokens are the CPU's") {
    using target_type = target_transformer<cuda::exact>;
    using draft_type = draft_transformer<cuda::fast>;
    index accepted = 0;
    for (std::uint64_t seed = 70, done = 0; done < 6; ++seed, ++done) {
        std::optional<random_pair> pair;
        seed = make_bf16_pair(pair, seed);
        random_source random(seed);
        const std::vector<token_id> prompt = random_tokens(random, random.between(1, 40), pair->target.vocab_size);
        generation_limits limits;
        limits.max_new_tokens = 40;
        target_transformer<cpu::exact> host(pair->target, pair->target_tensors, {}, cpu::exact({.threads = 1}));
        serial_decoder<target_transformer<cpu::exact>> serial(host);
        const generation_result right = serial.generate(prompt, limits);

        const cuda::exact ops;
        target_type target(pair->target, pair->target_tensors, pair->draft.taps, ops);
        draft_type draft(pair->draft, pair->draft_tensors, cuda::fast(ops));
        decoding<target_type, draft_type, determinism::batch_invariant> loop(target, draft, {},
                                                                             cuda::draft_choice(ops));
        const generation_result got = loop.decoder.generate(prompt, limits);
        INFO("seed " << seed);
        CHECK(got.tokens == right.tokens);
        accepted += got.stats.accepted;
    }
    CHECK(accepted > 0);
}

TEST_CASE("fast: matrices that are not bf16 and parts that do not stack are refused; so is a missing device") {
    const cuda::fast ops;
    const stored bf(dtype::bf16, 3, 4);
    const stored half(dtype::f16, 3, 4);
    const stored full(dtype::f32, 3, 4);
    const stored wide(dtype::bf16, 3, 5);
    const std::array mixed = {bf.view(), half.view()};
    const std::array only_full = {full.view()};
    const std::array uneven = {bf.view(), wide.view()};
    const std::array one = {bf.view()};
    CHECK_THROWS_WITH_AS(static_cast<void>(ops.pack(mixed)),
                         "pack: matrix 1 is F16, cuda::fast takes BF16; cuda::exact takes all", config_error);
    CHECK_THROWS_WITH_AS(static_cast<void>(ops.pack(only_full)),
                         "pack: matrix 0 is F32, cuda::fast takes BF16; cuda::exact takes all", config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack(uneven)), config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack({}, {})), config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack(one, uneven)), config_error);
    CHECK_THROWS_AS(static_cast<void>(ops.pack_vector({})), config_error);
    const with_settings guard;
    cuda::shim::settings.devices = 0;
    CHECK_THROWS_WITH_AS(cuda::fast(), doctest::Contains("no device was found"), backend_error);
}

}  // namespace dflash::test
