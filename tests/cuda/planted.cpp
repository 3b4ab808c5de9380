// Planted faults that the simulator must show: every barrier of every kernel left out, one at a time, and wrong masks.
#include <array>
#include <memory>

#include <dflash/cuda/sampling.hpp>
#include <dflash/cuda/shim/settings.hpp>
#include <dflash/numerics/attention.hpp>
#include <dflash/numerics/linear.hpp>
#include <dflash/numerics/rms_norm.hpp>

#include "support.hpp"

namespace cuda_tests {

namespace {

namespace cuda = dflash::cuda;

/// A thread that walks past one of its barriers.
template <class Thread>
class hasty_thread {
public:
    hasty_thread(const Thread& t, int skipped) : t_(&t), left_(std::make_shared<int>(skipped)) {}

    int thread() const { return t_->thread(); }
    int threads() const { return t_->threads(); }
    int lane() const { return t_->lane(); }
    int warp() const { return t_->warp(); }
    int block_x() const { return t_->block_x(); }
    int block_y() const { return t_->block_y(); }
    int block_z() const { return t_->block_z(); }
    template <class T>
    T* shared(int byte) const {
        return t_->template shared<T>(byte);
    }
    void sync() const {
        if ((*left_)-- != 0) {
            t_->sync();
        }
    }
    template <class T>
    T shuffle_down(T value, int delta) const {
        return t_->shuffle_down(value, delta);
    }
    template <class T>
    T shuffle(T value, int lane) const {
        return t_->shuffle(value, lane);
    }

private:
    const Thread* t_;
    std::shared_ptr<int> left_;
};

/// The kernel without its barrier number `skipped`; with all of them when that is negative.
template <class Kernel>
struct hasty {
    static constexpr int max_threads = Kernel::max_threads;

    struct arguments {
        typename Kernel::arguments right;
        int skipped;
    };

    template <class Thread>
    static void run(const Thread& t, const arguments& a) {
        Kernel::run(hasty_thread<Thread>(t, a.skipped), a.right);
    }
};

/// In how many of `orders` orders of threads a barrier's absence shows. `run(skipped)` says whether the result is
/// right.
template <class Run>
int caught(int skipped, int orders, Run run) {
    int wrong = 0;
    for (int order = 0; order < orders; ++order) {
        cuda::shim::settings.seed = static_cast<std::uint64_t>(order) * 1000 + 7;
        wrong += run(skipped) ? 0 : 1;
    }
    return wrong;
}

struct with_seed {
    std::uint64_t before = cuda::shim::settings.seed;
    ~with_seed() { cuda::shim::settings.seed = before; }
};

}  // namespace

TEST_CASE("linear: the absence of either barrier shows") {
    const with_seed guard;
    const cuda::exact ops;
    const index k = 600;  // several stages of two warps
    noise random(1);
    stored w(dflash::dtype::f32, 32, k);
    w.fill(random, content::plain);
    matrix x(4, k);
    x.fill(random, content::plain);
    matrix right(4, 32);
    for (index r = 0; r < 4; ++r) {
        numerics::linear(w.widened().data(), nullptr, x.row(r), k, 32, right.row(r));
    }
    // The packed form by its own rule: (groups, 32) words of four neighbours of k.
    dflash::buffer<cuda::word4, cuda::pinned_space> packed(k / 4 * 32);
    for (index group = 0; group < k / 4; ++group) {
        for (index o = 0; o < 32; ++o) {
            for (index j = 0; j < 4; ++j) {
                packed[group * 32 + o].v[j] = numerics::to_bits(w.get(o * k + group * 4 + j));
            }
        }
    }
    using kernel = cuda::linear_kernel<float, false, 4>;
    device_matrix in(ops, x);
    const auto run = [&](int skipped) {
        device_matrix out(ops, 4, 32);
        cuda::runtime::launch<hasty<kernel>>(ops.context().stream(), {{1, 1, 1}, 64, kernel::shared_bytes(2)},
                                             {{packed.data(), nullptr, in.view().data(), in.view().stride(),
                                               out.view().data(), out.view().stride(), 4, static_cast<int>(k), 32},
                                              skipped});
        return differing(out.host(ops), right) == 0;
    };
    CHECK(caught(-1, 10, run) == 0);
    for (int barrier = 0; barrier < 6; ++barrier) {  // two in each of three stages
        CAPTURE(barrier);
        CHECK(caught(barrier, 10, run) > 0);
    }
}

TEST_CASE("rms_norm: the absence of its barrier shows") {
    const with_seed guard;
    const cuda::exact ops;
    const index n = 700;
    noise random(2);
    stored w(dflash::dtype::f32, 1, n);
    w.fill(random, content::plain);
    const auto weights = ops.pack_vector(w.view());
    matrix x(1, n);
    x.fill(random, content::plain);
    matrix right(1, n);
    numerics::rms_norm(x.row(0), w.widened().data(), 1e-6F, n, right.row(0));
    using kernel = cuda::rms_norm_kernel;
    const auto run = [&](int skipped) {
        device_matrix in(ops, x);
        cuda::runtime::launch<hasty<kernel>>(ops.context().stream(), {{1, 1, 1}, 96, kernel::shared_bytes(700)},
                                             {{in.view().data(), in.view().stride(), weights.data(), 1e-6F,
                                               in.view().data(), in.view().stride(), static_cast<int>(n)},
                                              skipped});
        return differing(in.host(ops), right) == 0;
    };
    CHECK(caught(-1, 10, run) == 0);
    CHECK(caught(0, 10, run) > 0);
}

TEST_CASE("choose: the absence of any barrier shows") {
    const with_seed guard;
    const cuda::exact ops;
    const index vocab = 300;
    noise random(3);
    using kernel = cuda::choose_kernel;
    const dflash::categorical<> sampler({.temperature = 1.0F});
    int caught_at[3] = {};
    int with_all = 0;
    for (int round = 0; round < 40; ++round) {
        matrix logits(1, vocab);
        logits.fill(random, content::plain);
        const bool finite = round % 2 == 0;
        if (!finite) {
            logits.row(0)[random.below(vocab)] = numerics::infinity;
        }
        dflash::categorical<> keyed = sampler;
        keyed.reseed({5});
        const dflash::token_id right =
            finite ? keyed.pick(std::span<const float>(logits.row(0), static_cast<std::size_t>(vocab)), 9) : 0;
        device_matrix in(ops, logits);
        dflash::buffer<int, cuda::pinned_space> out(2);
        const auto run = [&](int skipped) {
            out[0] = out[1] = -7;
            cuda::runtime::launch<hasty<kernel>>(
                ops.context().stream(), {{1, 1, 1}, 128, kernel::shared_bytes(128)},
                {{in.view().data(), in.view().stride(), static_cast<int>(vocab), {1.0F, 5}, 9, &out[0], &out[1]},
                 skipped});
            ops.wait();
            return (!finite || out[0] == right) && out[1] == (finite ? 1 : 0);
        };
        with_all += caught(-1, 3, run);
        for (int barrier = 0; barrier < 3; ++barrier) {
            caught_at[barrier] += caught(barrier, 3, run);
        }
    }
    CHECK(with_all == 0);
    for (int barrier = 0; barrier < 3; ++barrier) {
        CAPTURE(barrier);
        CHECK(caught_at[barrier] > 0);
    }
}

TEST_CASE("attend: the absence of any barrier shows, and so does a mask that is off by one") {
    const with_seed guard;
    const cuda::exact ops;
    const index e = 8;
    const index length = 70;
    const index rows = 3;
    noise random(4);
    matrix keys(length, e);
    matrix values(length, e);
    matrix q(rows, 2 * e);
    keys.fill(random, content::plain);
    values.fill(random, content::plain);
    q.fill(random, content::plain);
    const float scale = numerics::attention_scale(e);
    const auto expected = [&](dflash::mask_rule mask, index position) {
        matrix out(rows, 2 * e);
        for (index i = 0; i < rows; ++i) {
            for (index h = 0; h < 2; ++h) {
                numerics::attend_row(
                    q.row(i) + h * e, scale, e, length, [&](index j) { return keys.row(j); },
                    [&](index j) { return values.row(j); }, [&](index j) { return mask.visible(position + i, j); },
                    out.row(i) + h * e);
            }
        }
        return out;
    };
    cuda::device_cache cache(1, 1, e, length);
    device_matrix k(ops, keys);
    device_matrix v(ops, values);
    device_matrix queries(ops, q);
    ops.write(cache, 0, 0, k.view(), v.view());
    const dflash::mask_rule mask{.causal = true, .window = 40};
    const matrix right = expected(mask, length - rows);

    dflash::buffer<float, device_space> partial_o(rows * 2 * e);
    dflash::buffer<float, device_space> partial_ml(rows * 2 * 2);
    using kernel = cuda::attend_chunk_kernel<8>;
    const auto run = [&](int skipped) {
        device_matrix out(ops, rows, 2 * e);
        const auto layer = cache.layer(0, length);
        cuda::attention_arguments a = {};
        a.queries = queries.view().data();
        a.queries_stride = queries.view().stride();
        a.keys = layer.keys;
        a.values = layer.values;
        a.keys_head = layer.keys_head;
        a.values_head = layer.values_head;
        a.partial_o = partial_o.data();
        a.partial_ml = partial_ml.data();
        a.out = out.view().data();
        a.out_stride = out.view().stride();
        a.rows = static_cast<int>(rows);
        a.heads = 2;
        a.kv_heads = 1;
        a.head_dim = static_cast<int>(e);
        a.chunks = 1;
        a.scale = scale;
        a.position = {nullptr, static_cast<int>(length - rows)};
        a.behind = static_cast<int>(rows);
        a.mask = mask;
        const auto stream = ops.context().stream();
        cuda::runtime::launch<hasty<kernel>>(
            stream, {{1, 1, 1}, kernel::max_threads, kernel::shared_bytes(static_cast<int>(e))}, {a, skipped});
        cuda::runtime::launch<cuda::join_chunks_kernel>(stream, {{2, static_cast<unsigned>(rows), 1}, 32, 0}, a);
        return differing(out.host(ops), right) == 0;
    };
    CHECK(caught(-1, 10, run) == 0);
    for (int barrier = 0; barrier < 3; ++barrier) {
        CAPTURE(barrier);
        CHECK(caught(barrier, 10, run) > 0);
    }

    const auto attended = [&](dflash::mask_rule rule, index position) {
        device_matrix out(ops, rows, 2 * e);
        ops.attend({queries.view(), cache.layer(0, length), out.view(), 2, 1, e, position, rule, scale});
        return out.host(ops);
    };
    CHECK(differing(attended(mask, length - rows), right) == 0);
    CHECK(differing(attended({.causal = true, .window = 41}, length - rows), right) > 0);
    CHECK(differing(attended({.causal = true, .window = 39}, length - rows), right) > 0);
    CHECK(differing(attended({.causal = false, .window = 40}, length - rows), right) > 0);
    CHECK(differing(attended(mask, length - rows - 1), right) > 0);
}

}  // namespace cuda_tests
