// The exact CPU backend: every operation of a transformer, with the same bits on every machine, for any number of rows,
// any thread count and any alignment.
//
// It follows numerics/ bit for bit. Kernels are chosen for the machine at run time. One object serves one thread at a
// time, because it keeps the scratch memory of attend; objects share nothing. Refuses to be built where the arithmetic
// it relies on does not hold.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include <dflash/cache/contiguous.hpp>
#include <dflash/concepts/attention.hpp>
#include <dflash/concepts/ops.hpp>
#include <dflash/concepts/preconditions.hpp>
#include <dflash/cpu/interleave.hpp>
#include <dflash/cpu/kernels.hpp>
#include <dflash/cpu/packing.hpp>
#include <dflash/cpu/parallel.hpp>
#include <dflash/cpu/rounding.hpp>
#include <dflash/numerics/rms_norm.hpp>
#include <dflash/numerics/self_test.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

/// Errors: backend_error when this thread's arithmetic is not the one the results rely on.
inline void require_arithmetic() {
    const numerics::self_test_result result = numerics::arithmetic_self_test();
    if (!result.ok) {
        raise<backend_error>("exact: ", result.what);
    }
}

/// Errors: backend_error when this machine or this build has none. `set` is not automatic.
inline const kernel_table& required_kernels(isa set) {
    const kernel_table* kernels = find_kernels(set);
    if (kernels == nullptr) {
        raise<backend_error>("exact: this machine or this build has no kernels for the instruction set ", name_of(set));
    }
    return *kernels;
}

/// What automatic stands for.
inline isa chosen_isa(isa force) noexcept {
    return force == isa::automatic ? best_isa() : force;
}

}  // namespace detail

/// How the exact backend works. Threads and instruction set never change a result. The type of activations does: it
/// belongs to a model's identity, and everything that is to agree uses the same one.
struct exact_options {
    int threads = 0;             ///< 0: as many as the OpenMP runtime would use
    isa force = isa::automatic;  ///< automatic: the fastest this machine can run
    /// bf16: inputs of linears with bf16 weights are rounded to bf16 once, which is faster where the machine can.
    activation_type activation = activation_type::f32;
};

/// The exact backend. Satisfies tensor_ops, and attention_backend over contiguous_layer<float>.
class exact {
public:
    using space = host_space;
    using scalar = float;
    using cache_type = contiguous_cache<float>;
    using linear_weights = cpu::linear_weights;
    using vector_weights = cpu::vector_weights;
    static constexpr determinism guarantee = determinism::cross_isa;

    exact() : exact(exact_options{}) {}

    /// Errors: config_error for negative threads; backend_error when the forced instruction set is not there, or when
    /// this thread's arithmetic is not the one the results rely on.
    explicit exact(exact_options options)
        : exact(options, detail::required_kernels(detail::chosen_isa(options.force))) {}

    /// With kernels that the caller names and keeps: a door for tests. They pass for those of `options.force`.
    exact(exact_options options, const detail::kernel_table& kernels)
        : isa_(detail::chosen_isa(options.force)),
          kernels_(&kernels),
          activation_(options.activation),
          dot_(options.activation == activation_type::bf16 && kernels.dot.run != nullptr && kernels.dot_is_chain()) {
        set_threads(options.threads);
        static const bool checked = (detail::require_arithmetic(), true);
        static_cast<void>(checked);
    }

    /// A copy works the same way and shares no memory.
    exact(const exact& other)
        : isa_(other.isa_),
          kernels_(other.kernels_),
          activation_(other.activation_),
          dot_(other.dot_),
          threads_(other.threads_) {}
    exact& operator=(const exact& other) {
        isa_ = other.isa_;
        kernels_ = other.kernels_;
        activation_ = other.activation_;
        dot_ = other.dot_;
        threads_ = other.threads_;
        return *this;
    }
    exact(exact&&) noexcept = default;
    exact& operator=(exact&&) noexcept = default;
    ~exact() = default;

    /// Threads an operation may use.
    [[nodiscard]] int threads() const noexcept { return threads_ == 0 ? available_threads() : threads_; }

    /// 0: as many as the OpenMP runtime would use. Errors: config_error for negative numbers.
    void set_threads(int threads) {
        if (threads < 0) {
            raise<config_error>("threads: got ", threads, ", needs at least 0");
        }
        threads_ = threads;
    }

    /// The instruction set in use; never automatic.
    [[nodiscard]] isa instruction_set() const noexcept { return isa_; }

    /// What linears with bf16 weights round their inputs to.
    [[nodiscard]] activation_type activation() const noexcept { return activation_; }

    /// Whether they use the machine's bf16 dot instruction. Without it f32 arithmetic gives the same bits.
    [[nodiscard]] bool uses_bf16_dot() const noexcept { return dot_; }

    /// Stacks matrices (out_i, in) along out. Biases: none, or one for each part. Errors: config_error.
    [[nodiscard]] linear_weights pack(std::span<const tensor_view> parts,
                                      std::span<const tensor_view> biases = {}) const {
        return pack_weights(parts, biases, threads(), activation_);
    }

    /// A vector of any stored type, widened. Errors: config_error when it is absent.
    [[nodiscard]] vector_weights pack_vector(tensor_view vector) const {
        if (vector.empty()) {
            raise<config_error>("pack_vector: the vector is absent");
        }
        vector_weights packed(vector.rows * vector.cols);
        for (index i = 0; i < packed.size(); ++i) {
            packed.data()[i] = detail::stored_float(vector, i);
        }
        return packed;
    }

    /// y = x w^T (+ bias). The weights were packed for the same activation type. Shapes: x (m, in), y (m, out).
    void linear(matrix_view<const float> x, const linear_weights& w, matrix_view<float> y) const {
        expected::linear(x, w, y);
        DFLASH_EXPECTS(w.type() != dtype::bf16 || w.activation() == activation_, "linear: the weights are packed for ",
                       name_of(w.activation()), " activations, the backend has ", name_of(activation_));
        if (y.empty()) {
            return;
        }
        detail::linear_job job = {w.data(), w.type(),   w.bias(), nullptr,  0,
                                  y.data(), y.stride(), x.rows(), w.cols(), w.rows()};
        if (w.activation() == activation_type::f32) {
            arrange<false>(x, kernels_->linear, workspace_, job);
            run(kernels_->linear, job);
        } else if (dot_) {
            arrange<true>(x, kernels_->dot, words_, job);
            run(kernels_->dot, job);
        } else {
            arrange<true>(x, kernels_->linear, workspace_, job);
            run(kernels_->linear, job);
        }
    }

    /// y = the rows `ids` of w, widened; a bias has no part in it. Errors: config_error for an id that is no row.
    /// Shape: y (ids, in).
    void gather(const linear_weights& w, std::span<const token_id> ids, matrix_view<float> y) const {
        expected::gather(w, size_of(ids), y);
        for (const token_id id : ids) {
            if (id < 0 || id >= w.rows()) {
                raise<config_error>("gather: got id ", id, ", needs one of the ", w.rows(), " rows of the table");
            }
        }
        const numerics::fp_environment environment;
        for (index i = 0; i < y.rows(); ++i) {
            const index row = ids[static_cast<std::size_t>(i)];
            float* out = y.data() + i * y.stride();
            for (index k = 0; k < w.cols(); ++k) {
                out[k] = w.at(row, k);
            }
        }
    }

    /// RMSNorm of every row. y may be x. Shapes: x, y (m, n), w (n).
    void rms_norm(matrix_view<const float> x, const vector_weights& w, float eps, matrix_view<float> y) const {
        expected::rms_norm(x, w.size(), y);
        if (!y.empty()) {
            norm(x, w, eps, y, 1);
        }
    }

    /// RMSNorm of every head of every row, in place. Shapes: x (m, heads * e), w (e).
    void rms_norm_heads(matrix_view<float> x, const vector_weights& w, float eps, index head_dim) const {
        expected::rms_norm_heads(x, w.size(), head_dim);
        if (!x.empty()) {
            norm(x, w, eps, x, x.cols() / head_dim);
        }
    }

    /// Rotates the half-split pairs of every head in place; row i stands at position + i. Shape: x (m, heads * e).
    void rope(matrix_view<float> x, index head_dim, const numerics::rope_table& table, index position) const {
        expected::rope(x, head_dim, table, position);
        if (x.empty()) {
            return;
        }
        const detail::rope_job job = {
            x.data(), x.stride(), table.cos(position), table.sin(position), x.cols() / head_dim, head_dim};
        parallel_for(threads(), x.rows(), 1, x.rows() * x.cols(),
                     [&](index first, index last, int) { kernels_->rope(job, first, last); });
    }

    /// y = silu(gate) * up. Shapes: gate_up (m, 2n) = [gate, up], y (m, n).
    void silu_mul(matrix_view<const float> gate_up, matrix_view<float> y) const {
        expected::silu_mul(gate_up, y);
        if (y.empty()) {
            return;
        }
        const detail::silu_job job = {gate_up.data(), gate_up.stride(), y.data(),
                                      y.stride(),     y.cols(),         column_blocks(y.cols())};
        parallel_for(threads(), y.rows() * job.blocks, 1, y.rows() * y.cols() * 4,
                     [&](index first, index last, int) { kernels_->silu_mul(job, first, last); });
    }

    /// h += o. Shapes: h, o (m, n).
    void add(matrix_view<float> h, matrix_view<const float> o) const {
        expected::same_shape("add", o, h);
        if (h.empty()) {
            return;
        }
        const detail::add_job job = {h.data(), h.stride(), o.data(), o.stride(), h.cols(), column_blocks(h.cols())};
        parallel_for(threads(), h.rows() * job.blocks, 1, h.rows() * h.cols(),
                     [&](index first, index last, int) { kernels_->add(job, first, last); });
    }

    /// y = x. Shapes: x, y (m, n).
    void copy(matrix_view<const float> x, matrix_view<float> y) const {
        expected::same_shape("copy", x, y);
        for (index r = 0; r < x.rows(); ++r) {
            std::copy_n(x.data() + r * x.stride(), x.cols(), y.data() + r * y.stride());
        }
    }

    /// Attention of every query row over one layer. Every row must see at least one key.
    void attend(const attention_call<float, contiguous_layer<float>>& call) const {
        const index seen = expected::attend(call);
        if (call.out.empty()) {
            return;
        }
        const index vectors = call.queries.rows() * (call.heads / call.kv_heads);
        const index tiles = (vectors + kernels_->tile_rows - 1) / kernels_->tile_rows;
        // Fewer passes over the cache, as long as every thread finds work.
        const index per_item = (std::max)(
            index{1}, (std::min)(detail::max_tiles_per_item, tiles * call.kv_heads / (2 * index{threads()})));
        const detail::attend_job job = {call.queries.data(),
                                        call.queries.stride(),
                                        call.cache.key_panels(0),
                                        call.cache.value_rows(0),
                                        call.cache.key_panels(1) - call.cache.key_panels(0),
                                        call.out.data(),
                                        call.out.stride(),
                                        call.queries.rows(),
                                        call.heads,
                                        call.kv_heads,
                                        call.head_dim,
                                        call.cache.length(),
                                        call.position,
                                        call.mask,
                                        call.scale,
                                        per_item};
        const index items = job.kv_heads * ((tiles + per_item - 1) / per_item);
        const index scratch = detail::attend_scratch(job.head_dim, kernels_->tile_rows);
        float* memory = grow(workspace_, scratch * threads());
        parallel_for(threads(), items, 1, 2 * seen * job.heads * job.head_dim,
                     [&](index first, index last, int thread) {
                         kernels_->attend(job, first, last, memory + thread * scratch);
                     });
    }

private:
    [[nodiscard]] static constexpr index column_blocks(index n) {
        return (n + detail::column_block - 1) / detail::column_block;
    }

    /// Gives the job x in the kernel's order: (chunks of 128, tiles of rows, 128, rows of the tile), rounded for the
    /// bf16 tier or as it is; words hold two elements. One row needs no order.
    template <bool Rounded, class T>
    void arrange(matrix_view<const float> x, const detail::linear_kernel& kernel, buffer<T>& memory,
                 detail::linear_job& job) const {
        constexpr index per_element = std::is_same_v<T, float> ? 1 : 2;
        constexpr index chunk = numerics::dot_chunk / per_element;
        job.x_chunk_stride = chunk;
        if (x.rows() == 1) {
            if constexpr (Rounded) {
                T* row = grow(memory, (x.cols() + per_element - 1) / per_element);
                round_row(x.data(), x.cols(), row);
                job.x = row;
            } else {
                job.x = x.data();
            }
            return;
        }
        const index full = x.rows() / kernel.tile_rows * kernel.tile_rows;
        const index padded = full == x.rows() ? full : full + kernel.tile_for(x.rows() - full);
        const index chunks = (x.cols() + numerics::dot_chunk - 1) / numerics::dot_chunk;
        T* out = grow(memory, chunks * padded * chunk);
        job.x = out;
        job.x_chunk_stride = padded * chunk;
        const auto arrange_chunk = [&](index c) {
            const index first = c * numerics::dot_chunk;
            const index count = (std::min)(numerics::dot_chunk, x.cols() - first);
            for (index row = 0; row < x.rows(); row += kernel.tile_rows) {
                const index width = (std::min)(kernel.tile_rows, padded - row);
                const index rows = (std::min)(width, x.rows() - row);
                const float* source = x.data() + row * x.stride() + first;
                T* tile = out + (c * padded + row) * chunk;
                if constexpr (Rounded) {
                    alignas(64) T rounded[std::size_t{detail::max_tile_rows * chunk}];
                    for (index r = 0; r < rows; ++r) {
                        round_row(source + r * x.stride(), count, rounded + r * chunk);
                    }
                    interleave(rounded, chunk, rows, (count + per_element - 1) / per_element, tile, width);
                } else {
                    interleave(source, x.stride(), rows, count, tile, width);
                }
            }
        };
        // For few rows one thread: what another one has read is slower to write the next time.
        constexpr index cost = Rounded ? 2 : 1;
        parallel_for(threads(), chunks, 1, x.rows() * x.cols() * cost, [&](index first, index last, int) {
            for (index c = first; c < last; ++c) {
                arrange_chunk(c);
            }
        });
    }

    void run(const detail::linear_kernel& kernel, const detail::linear_job& job) const {
        const index panels = (job.n + panel_width - 1) / panel_width;
        const index share = (panels + index{8} * threads() - 1) / (index{8} * threads());
        parallel_for(threads(), panels, (share + kernel.max_group - 1) / kernel.max_group * kernel.max_group,
                     job.rows * job.k * job.n, [&](index first, index last, int) { kernel.run(job, first, last); });
    }

    void norm(matrix_view<const float> x, const vector_weights& w, float eps, matrix_view<float> y, index heads) const {
        const detail::norm_job job = {x.data(), x.stride(), w.data(), eps, y.data(), y.stride(), heads, w.size()};
        parallel_for(threads(), x.rows() * heads, heads, x.rows() * x.cols(),
                     [&](index first, index last, int) { kernels_->rms_norm(job, first, last); });
    }

    template <class T>
    static T* grow(buffer<T>& memory, index size) {
        if (memory.size() < size) {
            memory = buffer<T>(size);
        }
        return memory.data();
    }

    isa isa_;
    const detail::kernel_table* kernels_ = nullptr;
    activation_type activation_ = activation_type::f32;
    bool dot_ = false;
    int threads_ = 0;
    mutable buffer<float> workspace_;
    mutable buffer<std::uint32_t> words_;  // inputs of the bf16 dot instruction
};

static_assert(tensor_ops_check<exact>());
static_assert(attention_backend<exact, float, contiguous_layer<float>>);

}  // namespace cpu

DFLASH_END_NAMESPACE
