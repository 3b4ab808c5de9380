// The exact CUDA backend: every operation of a transformer with the bits of numerics/ and of the CPU's exact backend.
//
// Copies share a stream, so that what is put into it happens in order; hand copies of one object to target, draft,
// drafter and acceptance rule. One thread at a time uses them. Results are there once the stream has been waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <dflash/concepts/attention.hpp>
#include <dflash/concepts/ops.hpp>
#include <dflash/concepts/preconditions.hpp>
#include <dflash/cuda/cache.hpp>
#include <dflash/cuda/context.hpp>
#include <dflash/cuda/kernels/attention.cuh>
#include <dflash/cuda/kernels/linear.cuh>
#include <dflash/cuda/kernels/rows.cuh>
#include <dflash/cuda/kernels/self_test.cuh>
#include <dflash/cuda/memory.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Matrices stacked along their rows and packed on the device, with an optional bias. Made by exact::pack.
class linear_weights {
public:
    linear_weights() = default;

    [[nodiscard]] index rows() const noexcept { return rows_; }
    [[nodiscard]] index cols() const noexcept { return cols_; }
    /// How the elements are kept.
    [[nodiscard]] dtype type() const noexcept { return type_; }

private:
    friend class exact;

    buffer<word4, device_space> words_;  // (panels, groups, 32)
    buffer<float, device_space> bias_;   // (rows) or empty
    dtype type_ = dtype::f32;
    index rows_ = 0;
    index cols_ = 0;
};

namespace detail {

/// Errors: backend_error when results of self_test_kernel are not what the arithmetic says.
inline void check_self_test(const float* results) {
    constexpr struct {
        float right;
        const char* otherwise;
    } rows[self_test_kernel::results] = {
        {0x1p-148F, "subnormal floats do not survive an addition"},
        {0x1p-127F, "subnormal floats do not survive a multiplication"},
        {0x1p-24F, "fma rounds twice (it is not fused)"},
        {0.0F, "a product and a sum became one fma: see nvcc_flags.txt"},
        {0x1.555556p-3F, "division is not correctly rounded"},
        {0x1.bb67aep+0F, "the square root is not correctly rounded"},
    };
    for (int i = 0; i < self_test_kernel::results; ++i) {
        if (numerics::to_bits(results[i]) != numerics::to_bits(rows[i].right)) {
            raise<backend_error>("cuda::exact: ", rows[i].otherwise);
        }
    }
}

/// Errors: backend_error when kernels do not compute as the results rely on.
inline void require_device_arithmetic(const context& shared) {
    buffer<float, pinned_space> memory(self_test_kernel::inputs + self_test_kernel::results);
    std::copy_n(self_test_kernel::given, self_test_kernel::inputs, memory.data());
    shared.launch<self_test_kernel>({.blocks = {}, .threads = warp_size, .shared_bytes = 0},
                                    {memory.data(), memory.data() + self_test_kernel::inputs});
    shared.wait();
    check_self_test(memory.data() + self_test_kernel::inputs);
}

}  // namespace detail

/// How the exact backend works.
struct exact_options {
    /// bf16: linears with bf16 weights round their inputs to bf16 once (numerics/bf16_tier.hpp).
    activation_type activation = activation_type::f32;
};

/// Satisfies tensor_ops, and attention_backend over device_layer.
class exact {
public:
    using space = device_space;
    using scalar = float;
    using cache_type = device_cache;
    using linear_weights = cuda::linear_weights;
    using vector_weights = buffer<float, device_space>;
    static constexpr bool one_product_for_context = true;  ///< see draft_transformer
    static constexpr determinism guarantee = determinism::cross_isa;

    exact() : exact(exact_options{}) {}
    /// Errors: backend_error when there is no device, or when its arithmetic is not the one the results rely on.
    explicit exact(exact_options options)
        : shared_(std::make_shared<cuda::context>()),
          tables_(std::make_shared<tables>()),
          activation_(options.activation) {
        detail::require_device_arithmetic(*shared_);
    }

    [[nodiscard]] cuda::context& context() const noexcept { return *shared_; }
    [[nodiscard]] activation_type activation() const noexcept { return activation_; }
    /// Until everything asked for has happened. Errors: backend_error for what went wrong on the way.
    void wait() const { shared_->wait(); }

    /// Stacks matrices (out_i, in) along out. Biases: none, or one for each part. Errors: config_error, backend_error.
    [[nodiscard]] linear_weights pack(std::span<const tensor_view> parts,
                                      std::span<const tensor_view> biases = {}) const {
        linear_weights w;
        check_parts(parts, biases);
        w.cols_ = parts[0].cols;
        w.type_ = parts[0].type;
        for (const tensor_view& part : parts) {
            w.rows_ += part.rows;
            w.type_ = part.type == w.type_ ? w.type_ : dtype::f32;  // an exact widening of all
        }
        check_int("weights: rows", w.rows_);
        check_int("weights: cols", w.cols_);
        const index panels = (w.rows_ + panel_width - 1) / panel_width;
        w.words_ = buffer<word4, device_space>(panels * words_of_panel(w.type_, w.cols_));
        index first = 0;
        for (const tensor_view& part : parts) {
            visit_type(part.type, [&](auto stored) { pack_part<decltype(stored)>(part, first, w); });
            first += part.rows;
        }
        if (!biases.empty()) {
            w.bias_ = buffer<float, device_space>(w.rows_);
            first = 0;
            for (const tensor_view& bias : biases) {
                widen(bias, w.bias_.data() + first);
                first += bias.rows * bias.cols;
            }
        }
        return w;
    }

    /// A vector of any stored type, widened. Errors: config_error when it is absent.
    [[nodiscard]] vector_weights pack_vector(tensor_view vector) const {
        if (vector.empty()) {
            raise<config_error>("pack_vector: the vector is absent");
        }
        vector_weights packed(vector.rows * vector.cols);
        widen(vector, packed.data());
        return packed;
    }

    /// y = x w^T (+ bias). Shapes: x (m, in), y (m, out).
    void linear(matrix_view<const float, space> x, const linear_weights& w, matrix_view<float, space> y) const {
        expected::linear(x, w, y);
        if (y.empty()) {
            return;
        }
        visit_type(w.type(), [&](auto stored) {
            using type = decltype(stored);
            if constexpr (std::is_same_v<type, bf16>) {
                if (activation_ == activation_type::bf16) {
                    multiply<type, true>(x, w, y);
                    return;
                }
            }
            multiply<type, false>(x, w, y);
        });
    }

    /// y = the rows `ids` of w, widened; a bias has no part in it. Ids in memory that kernels can read may still be on
    /// their way: one that is no row gives a row of NaN. Errors: config_error for other ids. Shape: y (ids, in).
    void gather(const linear_weights& w, std::span<const token_id> ids, matrix_view<float, space> y) const {
        expected::gather(w, size_of(ids), y);
        if (y.empty()) {
            return;
        }
        with_ids(ids, w.rows(), [&](const token_id* read) {
            visit_type(w.type(), [&](auto stored) {
                using kernel = gather_kernel<decltype(stored)>;
                launch<kernel>(columns(y.cols(), y.rows()),
                               {w.words_.data(), read, y.data(), y.stride(), as_int(w.rows()), as_int(w.cols())});
            });
        });
    }

    /// RMSNorm of every row. y may be x. Shapes: x, y (m, n), w (n).
    void rms_norm(matrix_view<const float, space> x, const vector_weights& w, float eps,
                  matrix_view<float, space> y) const {
        expected::rms_norm(x, w.size(), y);
        norm(x, w, eps, y, 1);
    }

    /// RMSNorm of every head of every row, in place. Shapes: x (m, heads * e), w (e).
    void rms_norm_heads(matrix_view<float, space> x, const vector_weights& w, float eps, index head_dim) const {
        expected::rms_norm_heads(x, w.size(), head_dim);
        norm(x, w, eps, x, x.cols() / head_dim);
    }

    /// Rotates the half-split pairs of every head in place; row i stands at position + i. Shape: x (m, heads * e).
    void rope(matrix_view<float, space> x, index head_dim, const numerics::rope_table& table, index position) const {
        expected::rope(x, head_dim, table, position);
        if (x.empty()) {
            return;
        }
        const device_table& angles = on_device(table);
        launch<rope_kernel>(columns(x.cols() / 2, x.rows()),
                            {x.data(), x.stride(), angles.cos.data(), angles.sin.data(), as_int(x.cols() / head_dim),
                             as_int(table.half()), shared_->at(position)});
    }

    /// y = silu(gate) * up. Shapes: gate_up (m, 2n) = [gate, up], y (m, n).
    void silu_mul(matrix_view<const float, space> gate_up, matrix_view<float, space> y) const {
        expected::silu_mul(gate_up, y);
        if (!y.empty()) {
            launch<silu_mul_kernel>(columns(y.cols(), y.rows()),
                                    {gate_up.data(), gate_up.stride(), y.data(), y.stride(), as_int(y.cols())});
        }
    }

    /// h += o. Shapes: h, o (m, n).
    void add(matrix_view<float, space> h, matrix_view<const float, space> o) const { move<true>(o, h, "add"); }

    /// y = x. Shapes: x, y (m, n).
    void copy(matrix_view<const float, space> x, matrix_view<float, space> y) const { move<false>(x, y, "copy"); }

    /// Writes K and V rows of one layer at positions first .. first + rows - 1; they count once extended over them.
    /// Shapes: keys and values (m, g*e).
    void write(device_cache& cache, index layer, index first, matrix_view<const float, space> keys,
               matrix_view<const float, space> values) const {
        DFLASH_EXPECTS(layer >= 0 && layer < cache.layers(), "cache: layer ", layer, " of ", cache.layers());
        DFLASH_EXPECTS(first >= 0 && first + keys.rows() <= cache.capacity(), "cache: rows ", first, " + ", keys.rows(),
                       " exceed the capacity ", cache.capacity());
        DFLASH_EXPECTS(keys.cols() == cache.kv_heads() * cache.head_dim() && values.cols() == keys.cols(),
                       "cache: row width ", keys.cols(), ", needs ", cache.kv_heads() * cache.head_dim());
        if (keys.empty()) {
            return;
        }
        const index elements = cache.kv_heads() * 4 * head_quads(as_int(cache.head_dim()));
        launch<write_cache_kernel>(columns(elements, keys.rows()),
                                   {keys.data(), keys.stride(), values.data(), values.stride(), cache.keys(layer),
                                    cache.values(layer), cache.keys_head(), cache.values_head(),
                                    as_int(cache.kv_heads()), as_int(cache.head_dim()), shared_->at(first)});
    }

    /// Attention of every query row over one layer. Every row must see at least one key.
    void attend(const attention_call<float, device_layer, space>& call) const {
        expected::attend(call);
        // Few rows at a time, so that what is kept of every chunk stays small.
        for (index first = 0; first < call.queries.rows(); first += attend_rows_at_once) {
            attend_some(call, first, (std::min)(attend_rows_at_once, call.queries.rows() - first));
        }
    }

    /// See concepts/replay.hpp.
    template <class Body>
    void replay(const replay_key& key, index position, Body body) const {
        if (runtime::visible(key.in)) {
            shared_->replay(key, position, std::move(body));
        } else {
            body();  // tokens that are copied first cannot be replayed
        }
    }

private:
    friend class fast;  // checks, uploads and launches in the same way

    static constexpr index attend_rows_at_once = 32;
    static constexpr int attend_tile = 8;  // query vectors of a block
    static constexpr std::size_t most_tables = 16;

    struct device_table {
        buffer<float, device_space> cos;
        buffer<float, device_space> sin;
    };
    using tables = std::map<std::uint64_t, device_table>;

    static void check_parts(std::span<const tensor_view> parts, std::span<const tensor_view> biases) {
        if (parts.empty()) {
            raise<config_error>("pack: got 0 matrices, needs at least 1");
        }
        if (!biases.empty() && biases.size() != parts.size()) {
            raise<config_error>("pack: got ", biases.size(), " biases for ", parts.size(), " matrices");
        }
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (parts[i].empty()) {
                raise<config_error>("pack: matrix ", i, " is absent");
            }
            if (parts[i].cols != parts[0].cols) {
                raise<config_error>("pack: matrix ", i, " has ", parts[i].cols, " columns, needs ", parts[0].cols);
            }
            if (!biases.empty() && biases[i].rows * biases[i].cols != parts[i].rows) {
                raise<config_error>("pack: bias ", i, " has ", biases[i].rows * biases[i].cols, " elements, needs ",
                                    parts[i].rows);
            }
        }
    }

    static void check_int(const char* what, index value) {
        if (value > index{0x7FFFFFFF}) {
            raise<config_error>(what, ": ", value, ", this backend takes at most ", 0x7FFFFFFF);
        }
    }

    static int as_int(index value) noexcept { return static_cast<int>(value); }

    /// Calls visit with a value of the stored type.
    template <class Visit>
    static void visit_type(dtype type, Visit visit) {
        switch (type) {
            case dtype::f32: visit(float{}); break;
            case dtype::bf16: visit(bf16{}); break;
            case dtype::f16: visit(f16{}); break;
        }
    }

    static index words_of_panel(dtype type, index cols) {
        return type == dtype::f32 ? detail::panel_words<float>(as_int(cols)) : detail::panel_words<bf16>(as_int(cols));
    }

    /// A thread for each column, in blocks of at most 256, and a row of blocks for each row.
    static launch_shape columns(index cols, index rows) {
        const index threads = (std::min)(index{256}, (cols + warp_size - 1) / warp_size * warp_size);
        return {{static_cast<unsigned>((cols + threads - 1) / threads), static_cast<unsigned>(rows), 1},
                as_int(threads),
                0};
    }

    template <class Kernel>
    void launch(const launch_shape& shape, const typename Kernel::arguments& arguments) const {
        constexpr unsigned most = 65535;
        if (shape.blocks.y > most) {
            raise<config_error>("forward: got ", shape.blocks.y, " rows, this backend takes at most ", most,
                                " at once (prefill_chunk)");
        }
        shared_->launch<Kernel>(shape, arguments);
    }

    /// The stored bytes, on the device.
    buffer<std::byte, device_space> upload(const tensor_view& tensor) const {
        const index bytes = tensor.rows * tensor.cols * size_of(tensor.type);
        buffer<std::byte, device_space> stored(bytes);
        runtime::copy(stored.data(), tensor.data, static_cast<std::size_t>(bytes), shared_->stream());
        return stored;
    }

    /// Calls launch with ids that a kernel can read: those of a table with `rows` rows, see gather.
    template <class Launch>
    void with_ids(std::span<const token_id> ids, index rows, Launch launch) const {
        if (runtime::visible(ids.data())) {
            launch(ids.data());
            return;
        }
        for (const token_id id : ids) {
            if (id < 0 || id >= rows) {
                raise<config_error>("gather: got id ", id, ", needs one of the ", rows, " rows of the table");
            }
        }
        const buffer<token_id, device_space> copied = copy_of(ids);
        launch(copied.data());
        wait();  // before the ids go away
    }

    buffer<token_id, device_space> copy_of(std::span<const token_id> ids) const {
        buffer<token_id, device_space> copied(size_of(ids));
        runtime::copy(copied.data(), ids.data(), ids.size_bytes(), shared_->stream());
        return copied;
    }

    template <class From>
    void pack_part(const tensor_view& part, index first, linear_weights& w) const {
        if (part.rows == 0 || part.cols == 0) {
            return;
        }
        const buffer<std::byte, device_space> stored = upload(part);
        const auto go = [&]<class W>(W) {
            const index words = part.rows * ((part.cols + detail::per_word<W> - 1) / detail::per_word<W>);
            check_int("weights: words of a matrix", words / 256);
            launch<pack_kernel<From, W>>(
                columns(words, 1), {reinterpret_cast<const From*>(stored.data()), w.words_.data(), as_int(part.rows),
                                    as_int(part.cols), as_int(first)});
        };
        if (w.type_ == part.type) {
            go(From{});
        } else {
            go(float{});
        }
        wait();  // before the stored bytes go away
    }

    void widen(const tensor_view& vector, float* out) const {
        const buffer<std::byte, device_space> stored = upload(vector);
        const index n = vector.rows * vector.cols;
        visit_type(vector.type, [&](auto type) {
            using from = decltype(type);
            launch<widen_kernel<from>>(columns(n, 1), {reinterpret_cast<const from*>(stored.data()), out, as_int(n)});
        });
        wait();
    }

    template <class W, bool Rounded>
    void multiply(matrix_view<const float, space> x, const linear_weights& w, matrix_view<float, space> y) const {
        const index m = x.rows();
        if (m == 1) {
            multiply_rows<W, Rounded, 1>(x, w, y);
        } else if (m == 2) {
            multiply_rows<W, Rounded, 2>(x, w, y);
        } else if (m <= 4) {
            multiply_rows<W, Rounded, 4>(x, w, y);
        } else if (m <= 8) {
            multiply_rows<W, Rounded, 8>(x, w, y);
        } else if (m <= 16) {
            multiply_rows<W, Rounded, 16>(x, w, y);
        } else {
            multiply_rows<W, Rounded, 32>(x, w, y);
        }
    }

    template <class W, bool Rounded, int Rows>
    void multiply_rows(matrix_view<const float, space> x, const linear_weights& w, matrix_view<float, space> y) const {
        using kernel = linear_kernel<W, Rounded, Rows>;
        // As many chunks at once as 96 KiB of shared memory hold.
        constexpr int most = Rows >= 32 ? 4 : Rows >= 16 ? 8 : 16;
        const index chunks = (w.cols() + kernel::chunk - 1) / kernel::chunk;
        const int warps = as_int((std::max)(index{1}, (std::min)(index{most}, chunks)));
        const index panels = (w.rows() + panel_width - 1) / panel_width;
        const index tiles = (x.rows() + Rows - 1) / Rows;
        launch<kernel>({{static_cast<unsigned>(panels), static_cast<unsigned>(tiles), 1},
                        warps * warp_size,
                        kernel::shared_bytes(warps)},
                       {w.words_.data(), w.bias_.size() > 0 ? w.bias_.data() : nullptr, x.data(), x.stride(), y.data(),
                        y.stride(), as_int(x.rows()), as_int(w.cols()), as_int(w.rows())});
    }

    void norm(matrix_view<const float, space> x, const vector_weights& w, float eps, matrix_view<float, space> y,
              index heads) const {
        if (y.empty()) {
            return;
        }
        const index chunks = (w.size() + rms_norm_kernel::chunk - 1) / rms_norm_kernel::chunk;
        const int warps = as_int((std::min)(index{rms_norm_kernel::max_threads / warp_size}, chunks));
        launch<rms_norm_kernel>({{static_cast<unsigned>(heads), static_cast<unsigned>(x.rows()), 1},
                                 warps * warp_size,
                                 rms_norm_kernel::shared_bytes(as_int(w.size()))},
                                {x.data(), x.stride(), w.data(), eps, y.data(), y.stride(), as_int(w.size())});
    }

    template <bool Add>
    void move(matrix_view<const float, space> x, matrix_view<float, space> y, [[maybe_unused]] const char* what) const {
        expected::same_shape(what, x, y);
        if (!y.empty()) {
            launch<move_kernel<Add>>(columns(y.cols(), y.rows()),
                                     {x.data(), x.stride(), y.data(), y.stride(), as_int(y.cols())});
        }
    }

    void attend_some(const attention_call<float, device_layer, space>& call, index first, index rows) const {
        constexpr index chunk = numerics::key_chunk;
        const index group = call.heads / call.kv_heads;
        // A recorded launch must be right for every length that the cache has room for.
        const index length = shared_->recording() ? call.cache.positions : call.cache.length();
        const index chunks = (length + chunk - 1) / chunk;
        // Room for the whole cache at once, so that a longer sequence moves nothing.
        const index room = (call.cache.positions + chunk - 1) / chunk;
        const index partials = (std::min)(attend_rows_at_once, call.queries.rows()) * call.heads * room;
        attention_arguments a = {};
        a.queries = call.queries.data() + first * call.queries.stride();
        a.queries_stride = call.queries.stride();
        a.keys = call.cache.keys;
        a.values = call.cache.values;
        a.keys_head = call.cache.keys_head;
        a.values_head = call.cache.values_head;
        a.partial_o = shared_->scratch(shared_->partial_o, partials * call.head_dim);
        a.partial_ml = shared_->scratch(shared_->partial_ml, partials * 2);
        a.out = call.out.data() + first * call.out.stride();
        a.out_stride = call.out.stride();
        a.rows = as_int(rows);
        a.heads = as_int(call.heads);
        a.kv_heads = as_int(call.kv_heads);
        a.head_dim = as_int(call.head_dim);
        a.chunks = as_int(room);
        a.scale = call.scale;
        a.position = shared_->at(call.position + first);
        a.behind = as_int(call.cache.length() - call.position - first);
        a.mask = call.mask;
        const index tiles = (rows * group + attend_tile - 1) / attend_tile;
        using kernel = attend_chunk_kernel<attend_tile>;
        launch<kernel>(
            {{static_cast<unsigned>(chunks), static_cast<unsigned>(call.kv_heads), static_cast<unsigned>(tiles)},
             kernel::max_threads,
             kernel::shared_bytes(a.head_dim)},
            a);
        const int threads = as_int((std::min)(index{join_chunks_kernel::max_threads},
                                              (call.head_dim + warp_size - 1) / warp_size * warp_size));
        launch<join_chunks_kernel>({{static_cast<unsigned>(call.heads), static_cast<unsigned>(rows), 1}, threads, 0},
                                   a);
    }

    const device_table& on_device(const numerics::rope_table& table) const {
        const auto found = tables_->find(table.identity());
        if (found != tables_->end()) {
            return found->second;
        }
        if (tables_->size() >= most_tables) {
            wait();
            shared_->forget();  // graphs that read the tables
            tables_->clear();
        }
        const index size = table.positions() * table.half();
        device_table made{buffer<float, device_space>(size), buffer<float, device_space>(size)};
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(float);
        runtime::copy(made.cos.data(), table.cos(0), bytes, shared_->stream());
        runtime::copy(made.sin.data(), table.sin(0), bytes, shared_->stream());
        return tables_->emplace(table.identity(), std::move(made)).first->second;
    }

    std::shared_ptr<cuda::context> shared_;
    std::shared_ptr<tables> tables_;
    activation_type activation_;
};

static_assert(tensor_ops_check<exact>());
static_assert(attention_backend<exact, float, device_layer>);

}  // namespace cuda

DFLASH_END_NAMESPACE
