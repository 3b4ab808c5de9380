// Every operation of the exact CUDA backend against the scalar specification in numerics/, bit for bit.
//
// Outputs are NaN before, rows have padding that must stay NaN, and sizes lie on and beside the edges of tiles, chunks
// and panels. `quick`: small shapes only, for the simulator and for compute-sanitizer.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/acceptance.hpp>
#include <dflash/numerics/attention.hpp>
#include <dflash/numerics/bf16_tier.hpp>
#include <dflash/numerics/linear.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/rope.hpp>

#include "inputs.hpp"

namespace device_check {

inline constexpr content all_contents[] = {content::plain, content::cancelling, content::subnormal, content::wide};

/// y = x w^T + bias by the scalar specification.
inline host_matrix expected_linear(const host_matrix& x, const stored& w, const float* bias, index n, bool rounded) {
    const index k = x.cols();
    host_matrix y(x.rows(), n, 3);
    std::vector<dflash::bf16> bits;
    if (rounded) {
        for (const float value : w.widened()) {
            bits.push_back(numerics::to_bf16(value));
        }
    }
    on_all_cores(n, [&](index o) {
        const float* b = bias == nullptr ? nullptr : bias + o;
        for (index r = 0; r < x.rows(); ++r) {
            if (rounded) {
                numerics::linear_bf16(bits.data() + o * k, b, x.row(r), k, 1, y.row(r) + o);
            } else {
                numerics::linear(w.widened().data() + o * k, b, x.row(r), k, 1, y.row(r) + o);
            }
        }
    });
    return y;
}

struct linear_case {
    dtype type;
    index k;
    index n;
    index rows;
    content weights;
    content inputs;
    bool bias = false;
    bool spoiled = false;    ///< every third row is infinity and NaN
    bool one_by_one = true;  ///< compare with single rows, too
};

inline void check_linear(const cuda::exact& ops, const linear_case& c, std::uint64_t seed, tally& right,
                         tally& grouping) {
    noise random(seed);
    stored w(c.type, c.n, c.k);
    stored bias(dtype::f32, 1, c.n);
    host_matrix x(c.rows, c.k, static_cast<index>(seed % 2) * 5);
    w.fill(random, c.weights);
    bias.fill(random, content::plain);
    x.fill(random, c.inputs);
    for (index r = 1; c.spoiled && r < c.rows; r += 3) {
        x.spoil(r);
    }
    const std::array parts = {w.view()};
    const std::array biases = {bias.view()};
    const auto packed =
        ops.pack(parts, c.bias ? std::span<const dflash::tensor_view>(biases) : std::span<const dflash::tensor_view>());
    device_matrix in(ops, x);
    device_matrix out(ops, c.rows, c.n, 3);
    ops.linear(in.view(), packed, out.view());
    const bool rounded = ops.activation() == dflash::activation_type::bf16 && c.type == dtype::bf16;
    const host_matrix got = out.host(ops);
    right.add(got, expected_linear(x, w, c.bias ? bias.widened().data() : nullptr, c.n, rounded));
    if (c.one_by_one && c.rows > 1) {
        device_matrix single(ops, c.rows, c.n, 3);
        for (index r = 0; r < c.rows; ++r) {
            ops.linear(in.view().rows(r, 1), packed, single.view().rows(r, 1));
        }
        grouping.add(single.host(ops), got);
    }
}

inline void check_linears(const cuda::exact& ops, report& out, const std::string& tier, bool quick) {
    using sizes = std::vector<index>;
    const bool rounded = ops.activation() == dflash::activation_type::bf16;
    for (const dtype type : {dtype::bf16, dtype::f32, dtype::f16}) {
        if (rounded && type != dtype::bf16) {
            continue;  // the same kernels as without rounding
        }
        const std::string name = "linear, " + tier + ", weights " + std::string(name_of(type));
        std::uint64_t seed = 100;
        out.attempt(name, [&] {
            tally right;
            tally grouping;
            for (const index k : quick ? sizes{3, 129, 300} : sizes{1, 3, 7, 8, 127, 128, 129, 257, 600, 1500}) {
                for (const index n : quick ? sizes{1, 33} : sizes{1, 31, 32, 33, 70}) {
                    for (const index rows : quick ? sizes{1, 5, 17} : sizes{1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33}) {
                        ++seed;
                        check_linear(ops,
                                     {type, k, n, rows, all_contents[seed % 4], all_contents[seed / 4 % 4],
                                      seed % 3 == 0, seed % 5 == 0},
                                     seed, right, grouping);
                    }
                }
            }
            out.equality(name + ", odd sizes", right.compared, right.differing);
            out.equality(name + ", rows one by one", grouping.compared, grouping.differing);
        });
    }
}

/// Sizes of real models: the scalar specification takes seconds for them.
inline void check_large_linears(const cuda::exact& ops, report& out, const std::string& tier, dtype type) {
    const std::string name = "linear, " + tier + ", weights " + std::string(name_of(type));
    for (const index rows : {1, 16, 32}) {
        const std::string large = name + ", 4096 x 4096, " + std::to_string(rows) + " rows";
        out.attempt(large, [&] {
            tally right;
            tally grouping;
            check_linear(ops, {type, 4096, 4096, rows, content::plain, all_contents[rows % 3], true, false, true},
                         static_cast<std::uint64_t>(rows), right, grouping);
            out.equality(large, right.compared, right.differing);
            if (rows > 1) {
                out.equality(large + ", one by one", grouping.compared, grouping.differing);
            }
        });
    }
    out.attempt(name + ", 9728 x 2560", [&] {
        tally right;
        tally grouping;
        check_linear(ops, {type, 9728, 2560, 16, content::wide, content::plain, false, true, true}, 77, right,
                     grouping);
        out.equality(name + ", 9728 x 2560, 16 rows", right.compared, right.differing);
        out.equality(name + ", 9728 x 2560, 16 rows, one by one", grouping.compared, grouping.differing);
    });
}

inline void check_gather(const cuda::exact& ops, report& out) {
    out.attempt("gather", [&] {
        tally all;
        noise random(4);
        for (const dtype type : {dtype::bf16, dtype::f32, dtype::f16}) {
            for (const index k : {37, 300}) {
                stored table(type, 70, k);
                table.fill(random, content::wide);
                const std::array parts = {table.view()};
                const auto packed = ops.pack(parts);
                dflash::buffer<token_id, cuda::pinned_space> pinned(7);
                const std::vector<token_id> ids = {69, 0, 31, 32, 33, 0, 70};
                std::copy(ids.begin(), ids.end(), pinned.data());
                host_matrix right(7, k, 2);
                for (index r = 0; r < 6; ++r) {
                    std::copy_n(table.widened().data() + ids[static_cast<std::size_t>(r)] * k, k, right.row(r));
                }
                device_matrix y(ops, 7, k, 2);
                ops.gather(packed, {pinned.data(), 7}, y.view());  // the last id is no row: NaN
                all.add(y.host(ops), right);
                device_matrix z(ops, 6, k, 2);
                ops.gather(packed, {ids.data(), 6}, z.view());
                device_matrix same(ops, 6, k, 2);
                ops.gather(packed, {pinned.data(), 6}, same.view());
                all.add(z.host(ops), same.host(ops));
            }
        }
        out.equality("gather: pinned and host ids", all.compared, all.differing);
    });
}

inline void check_norms(const cuda::exact& ops, report& out, bool quick) {
    out.attempt("rms_norm", [&] {
        tally rows_tally;
        tally heads_tally;
        noise random(5);
        const std::vector<index> sizes =
            quick ? std::vector<index>{1, 300} : std::vector<index>{1, 31, 255, 256, 257, 2560, 4097, 9000};
        for (const index n : sizes) {
            for (const content kind : all_contents) {
                stored weight(dtype::bf16, 1, n);
                weight.fill(random, content::plain);
                const auto packed = ops.pack_vector(weight.view());
                host_matrix x(9, n, 3);
                x.fill(random, kind);
                x.spoil(4);
                host_matrix right(9, n, 3);
                for (index r = 0; r < 9; ++r) {
                    numerics::rms_norm(x.row(r), weight.widened().data(), 1e-6F, n, right.row(r));
                }
                device_matrix in(ops, x);
                device_matrix y(ops, 9, n, 3);
                ops.rms_norm(in.view(), packed, 1e-6F, y.view());
                rows_tally.add(y.host(ops), right);
                ops.rms_norm(in.view(), packed, 1e-6F, in.view());
                rows_tally.add(in.host(ops), right);
            }
        }
        for (const index e : {6, 64, 128}) {
            stored weight(dtype::f32, 1, e);
            weight.fill(random, content::plain);
            const auto packed = ops.pack_vector(weight.view());
            host_matrix x(17, 5 * e, 3);
            x.fill(random, content::wide);
            host_matrix right(17, 5 * e, 3);
            for (index r = 0; r < 17; ++r) {
                for (index h = 0; h < 5; ++h) {
                    numerics::rms_norm(x.row(r) + h * e, weight.widened().data(), 1e-6F, e, right.row(r) + h * e);
                }
            }
            device_matrix in(ops, x);
            ops.rms_norm_heads(in.view(), packed, 1e-6F, e);
            heads_tally.add(in.host(ops), right);
        }
        out.equality("rms_norm: rows, also in place", rows_tally.compared, rows_tally.differing);
        out.equality("rms_norm: heads", heads_tally.compared, heads_tally.differing);
    });
}

inline void check_rows(const cuda::exact& ops, report& out) {
    out.attempt("rope", [&] {
        tally all;
        noise random(6);
        for (const index e : {2, 6, 64, 128}) {
            const numerics::rope_table table({}, e, 2100);
            for (const index position : {0, 255, 2000}) {
                host_matrix x(33, 3 * e, 5);
                x.fill(random, content::wide);
                device_matrix in(ops, x);
                for (index r = 0; r < 33; ++r) {
                    for (index h = 0; h < 3; ++h) {
                        numerics::rope_half(x.row(r) + h * e, table.cos(position + r), table.sin(position + r), e);
                    }
                }
                ops.rope(in.view(), e, table, position);
                all.add(in.host(ops), x);
            }
        }
        out.equality("rope: positions to 2032", all.compared, all.differing);
    });
    out.attempt("silu_mul, add, copy", [&] {
        tally all;
        noise random(7);
        for (const index n : {1, 33, 300, 9728}) {
            for (const content kind : all_contents) {
                host_matrix x(17, 2 * n, 1);
                x.fill(random, kind);
                for (index c = 0; c < 2 * n; ++c) {
                    x.row(3)[c] = x.row(3)[c] * 100.0F;  // where exp runs over and under
                }
                x.spoil(5);
                host_matrix product(17, n, 2);
                host_matrix sum(17, n, 2);
                host_matrix same(17, n, 2);
                for (index r = 0; r < 17; ++r) {
                    for (index c = 0; c < n; ++c) {
                        product.row(r)[c] = numerics::silu_mul(x.row(r)[c], x.row(r)[n + c]);
                        sum.row(r)[c] = product.row(r)[c] + x.row(r)[c];
                        same.row(r)[c] = x.row(r)[c];
                    }
                }
                device_matrix in(ops, x);
                device_matrix y(ops, 17, n, 2);
                device_matrix z(ops, 17, n, 2);
                ops.silu_mul(in.view(), y.view());
                all.add(y.host(ops), product);
                ops.add(y.view(), in.view().columns(0, n));
                all.add(y.host(ops), sum);
                ops.copy(in.view().columns(0, n), z.view());
                all.add(z.host(ops), same);
            }
        }
        out.equality("silu_mul, add, copy", all.compared, all.differing);
    });
}

struct attention_case {
    index length;
    index rows;
    index kv_heads;
    index group;
    index e;
    dflash::mask_rule mask;
    content kind;
};

inline void check_attention(const cuda::exact& ops, const attention_case& c, std::uint64_t seed, tally& right,
                            tally& grouping) {
    noise random(seed);
    const index heads = c.kv_heads * c.group;
    const index position = c.length - c.rows;
    const float scale = numerics::attention_scale(c.e);
    host_matrix keys(c.length, c.kv_heads * c.e);
    host_matrix values(c.length, c.kv_heads * c.e);
    host_matrix q(c.rows, heads * c.e, 2);
    keys.fill(random, c.kind);
    values.fill(random, content::plain);
    q.fill(random, c.kind);
    cuda::device_cache cache(2, c.kv_heads, c.e, c.length + 9);
    device_matrix poison(ops, c.length + 9, c.kv_heads * c.e);
    device_matrix k(ops, keys);
    device_matrix v(ops, values);
    ops.write(cache, 1, 0, poison.view(), poison.view());
    const index half = c.length / 2;
    ops.write(cache, 1, 0, k.view().rows(0, half), v.view().rows(0, half));
    ops.write(cache, 1, half, k.view().rows(half, c.length - half), v.view().rows(half, c.length - half));

    device_matrix queries(ops, q);
    device_matrix y(ops, c.rows, heads * c.e, 3);
    ops.attend({queries.view(), cache.layer(1, c.length), y.view(), heads, c.kv_heads, c.e, position, c.mask, scale});
    host_matrix expected(c.rows, heads * c.e, 3);
    on_all_cores(c.rows * heads, [&](index i) {
        const index row = i / heads;
        const index h = i % heads;
        const index g = h / c.group;
        numerics::attend_row(
            q.row(row) + h * c.e, scale, c.e, c.length, [&](index j) { return keys.row(j) + g * c.e; },
            [&](index j) { return values.row(j) + g * c.e; },
            [&](index j) { return c.mask.visible(position + row, j); }, expected.row(row) + h * c.e);
    });
    const host_matrix got = y.host(ops);
    right.add(got, expected);
    device_matrix single(ops, c.rows, heads * c.e, 3);
    for (index r = 0; r < c.rows; ++r) {
        ops.attend({queries.view().rows(r, 1), cache.layer(1, c.length), single.view().rows(r, 1), heads, c.kv_heads,
                    c.e, position + r, c.mask, scale});
    }
    grouping.add(single.host(ops), got);
}

inline void check_attentions(const cuda::exact& ops, report& out, bool quick) {
    using sizes = std::vector<index>;
    std::uint64_t seed = 0;
    for (const index length : quick ? sizes{5, 258} : sizes{1, 2, 33, 255, 256, 257, 511, 512, 513, 1024, 1500, 2000}) {
        const std::string name = "attention, " + std::to_string(length) + " positions";
        out.attempt(name, [&] {
            tally right;
            tally grouping;
            for (const index rows : quick ? sizes{3} : sizes{1, 2, 5, 16, 32, 33}) {
                if (rows > length) {
                    continue;
                }
                for (const dflash::mask_rule mask :
                     {dflash::mask_rule{.causal = true}, dflash::mask_rule{.causal = false},
                      dflash::mask_rule{.causal = true, .window = 7},
                      dflash::mask_rule{.causal = false, .window = 130}}) {
                    ++seed;
                    const index e = seed % 3 == 0 ? 128 : seed % 3 == 1 ? 64 : 6;
                    const auto kv_heads = static_cast<index>(1 + seed % 2);
                    const auto group = static_cast<index>(1 + seed % 4);
                    check_attention(ops, {length, rows, kv_heads, group, e, mask, all_contents[seed % 4]}, seed, right,
                                    grouping);
                }
            }
            out.equality(name, right.compared, right.differing);
            out.equality(name + ", rows one by one", grouping.compared, grouping.differing);
        });
    }
}

/// Rows of logits with ties, and sometimes one that cannot be used.
inline host_matrix random_logits(noise& random, index rows, index vocab, bool spoiled) {
    host_matrix logits(rows, vocab, 1);
    for (index r = 0; r < rows; ++r) {
        for (index c = 0; c < vocab; ++c) {
            logits.row(r)[c] = static_cast<float>(random.below(19)) * 0.5F - 2.0F;
        }
        if (spoiled && random.below(9) == 0) {
            const float values[] = {numerics::not_a_number, numerics::infinity, -numerics::infinity};
            logits.row(r)[random.below(vocab)] = values[random.below(3)];
        }
    }
    return logits;
}

template <class Sampler>
void check_verdicts(const cuda::exact& ops, const Sampler& sampler, index vocab, int rounds, tally& all) {
    const cuda::sample_and_match rule(ops);
    noise random(static_cast<std::uint64_t>(vocab));
    for (int round = 0; round < rounds; ++round) {
        const index n = random.below(16);
        const host_matrix logits = random_logits(random, n + 1, vocab, true);
        dflash::buffer<token_id, cuda::pinned_space> drafts(16);
        const dflash::noise_key key{random.word()};
        const index position = random.below(100000);
        Sampler keyed = sampler;
        if constexpr (requires { keyed.reseed(key); }) {
            keyed.reseed(key);
        }
        for (index i = 0; i < n; ++i) {
            const std::span<const float> row(logits.row(i), static_cast<std::size_t>(vocab));
            // Mostly what the target will choose, so that verdicts of all lengths occur.
            const bool usable = std::all_of(row.begin(), row.end(), [](float x) { return numerics::is_finite(x); });
            drafts[i] = random.below(9) == 0 || !usable ? static_cast<token_id>(random.below(vocab))
                                                        : keyed.pick(row, position + i);
        }
        const std::span<const token_id> guesses(drafts.data(), static_cast<std::size_t>(n));
        const auto right = dflash::sample_and_match{}.accept(
            {.drafts = guesses, .logits = logits.view(), .draft_law = {}, .position = position, .noise = key}, keyed);
        device_matrix on(ops, logits);
        const auto got = rule.accept(
            {.drafts = guesses, .logits = on.view(), .draft_law = {}, .position = position, .noise = key}, sampler);
        all.add(got.accepted == right.accepted && got.next == right.next && got.bad_row == right.bad_row);
    }
}

inline void check_choices(const cuda::exact& ops, report& out, bool quick) {
    for (const index vocab : quick ? std::vector<index>{5, 700} : std::vector<index>{1, 5, 511, 513, 3000, 151936}) {
        const std::string name = "verdicts, vocabulary of " + std::to_string(vocab);
        out.attempt(name, [&] {
            tally all;
            const int rounds = vocab > 10000 ? 4 : quick ? 4 : 40;
            check_verdicts(ops, dflash::greedy{}, vocab, rounds, all);
            for (const float temperature : {0.0F, 0.7F, 3.0F}) {
                check_verdicts(ops, dflash::categorical<>({.temperature = temperature}), vocab, rounds, all);
            }
            out.equality(name, all.compared, all.differing);
        });
    }
    out.attempt("drafts", [&] {
        tally all;
        noise random(2);
        const index vocab = quick ? 700 : 40000;
        const host_matrix logits = random_logits(random, 15, vocab, false);
        device_matrix on(ops, logits);
        for (const float temperature : {0.0F, 1.3F}) {
            const dflash::sampling_options law{.temperature = temperature};
            std::array<token_id, 15> right{};
            dflash::draft_output<> expected{.tokens = right, .count = 0, .law = {}};
            dflash::coupled_drafts<>(law).choose(logits.view(), 40, {77}, expected);
            dflash::buffer<token_id, cuda::pinned_space> tokens(15);
            dflash::draft_output<device_space> got{.tokens = {tokens.data(), 15}, .count = 0, .law = {}};
            cuda::draft_choice(ops, law).choose(on.view(), 40, {77}, got);
            ops.wait();
            for (index i = 0; i < 15; ++i) {
                all.add(tokens[i] == right[static_cast<std::size_t>(i)]);
            }
        }
        out.equality("drafts: argmax and coupled", all.compared, all.differing);
    });
}

/// The operations of a layer as one body, launched and replayed, over positions on both sides of a chunk's edge.
class replayed_layer {
public:
    replayed_layer(const cuda::exact& ops, index rows)
        : ops_(ops),
          rows_(rows),
          table_({}, e, capacity),
          keys_(1, kv_heads, e, capacity),
          x_(ops, random_rows(rows, width, 1)),
          qkv_(ops, rows, q + 2 * kv),
          attended_(ops, rows, q),
          out_(ops, rows, width) {
        noise random(8);
        stored project(dtype::bf16, q + 2 * kv, width);
        stored back(dtype::bf16, width, q);
        stored norm(dtype::f32, 1, width);
        for (stored* s : {&project, &back, &norm}) {
            s->fill(random, content::plain);
        }
        const std::array first = {project.view()};
        const std::array second = {back.view()};
        project_ = ops.pack(first);
        back_ = ops.pack(second);
        norm_ = ops.pack_vector(norm.view());
    }

    void forward(index position, bool replay) {
        const dflash::replay_key key{.model = 1, .cache = keys_.identity(), .rows = rows_};
        const auto body = [&] { run(position); };
        if (replay) {
            ops_.context().replay(key, position, body);
        } else {
            body();
        }
    }
    [[nodiscard]] host_matrix attended() const { return attended_.host(ops_); }
    [[nodiscard]] host_matrix result() const { return out_.host(ops_); }

private:
    static constexpr index e = 32;
    static constexpr index kv_heads = 2;
    static constexpr index q = 3 * kv_heads * e;
    static constexpr index kv = kv_heads * e;
    static constexpr index width = 150;
    static constexpr index capacity = 700;

    static host_matrix random_rows(index rows, index cols, std::uint64_t seed) {
        noise random(seed);
        host_matrix x(rows, cols);
        x.fill(random, content::plain);
        return x;
    }

    void run(index position) {
        const auto all = qkv_.view();
        ops_.rms_norm(x_.view(), norm_, 1e-6F, out_.view());
        ops_.linear(out_.view(), project_, all);
        ops_.rope(all.columns(0, q), e, table_, position);
        ops_.rope(all.columns(q, kv), e, table_, position);
        ops_.write(keys_, 0, position, all.columns(q, kv), all.columns(q + kv, kv));
        ops_.attend({all.columns(0, q),
                     keys_.layer(0, position + rows_),
                     attended_.view(),
                     3 * kv_heads,
                     kv_heads,
                     e,
                     position,
                     {.causal = true},
                     numerics::attention_scale(e)});
        ops_.linear(attended_.view(), back_, out_.view());
        ops_.add(out_.view(), x_.view());
        ops_.copy(out_.view(), x_.view());
    }

    cuda::exact ops_;
    index rows_;
    numerics::rope_table table_;
    cuda::device_cache keys_;
    device_matrix x_;
    device_matrix qkv_;
    device_matrix attended_;
    device_matrix out_;
    cuda::linear_weights project_;
    cuda::linear_weights back_;
    cuda::exact::vector_weights norm_;
};

inline void check_replay(report& out, bool quick) {
    for (const index rows : quick ? std::vector<index>{2} : std::vector<index>{1, 7, 16}) {
        const std::string name = "graph replay equals eager, " + std::to_string(rows) + " rows";
        out.attempt(name, [&] {
            const cuda::exact ops;
            replayed_layer eager(ops, rows);
            replayed_layer graph(ops, rows);
            tally all;
            const index last = quick ? 8 : 600;
            for (index position = 0; position + rows <= last; position += rows) {
                eager.forward(position, false);
                graph.forward(position, true);
                all.add(graph.attended(), eager.attended());
                all.add(graph.result(), eager.result());
            }
            out.equality(name, all.compared, all.differing);
        });
    }
}

inline void check_exactness(report& out, bool quick) {
    const cuda::exact ops;
    const cuda::exact rounding({.activation = dflash::activation_type::bf16});
    check_linears(ops, out, "f32", quick);
    check_linears(rounding, out, "bf16 tier", quick);
    check_gather(ops, out);
    check_norms(ops, out, quick);
    check_rows(ops, out);
    check_replay(out, quick);
    check_choices(ops, out, quick);
    check_attentions(ops, out, quick);
    if (!quick) {
        check_large_linears(ops, out, "f32", dtype::bf16);
        check_large_linears(rounding, out, "bf16 tier", dtype::bf16);
        check_large_linears(ops, out, "f32", dtype::f32);
    }
}

}  // namespace device_check
