// The fast CUDA backend: products of matrices by cuBLASLt on tensor cores, all else by the exact backend.
//
// It promises determinism::run_to_run and no more: the same calls on the same machine give the same bits, since the
// algorithm for each shape is chosen once and splits no sum in a way that leaves the order open. It cannot promise
// batch invariance, because cuBLASLt adds in another order for another number of rows. As a target it therefore needs
// allow_numeric_drift. As a draft of an exact target it costs nothing: losslessness depends on the target alone.
// Construct it from the target's cuda::exact then, so that both work in one stream.
//
// Linears take bf16 weights, round their inputs to bf16 (nearest even) and add in f32. Matrices of other types are
// refused: the exact backend serves them. Norms and biases may have any type.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include <dflash/concepts/preconditions.hpp>
#include <dflash/cuda/blas_lt.hpp>
#include <dflash/cuda/exact.hpp>
#include <dflash/cuda/kernels/bf16_rows.cuh>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Matrices stacked along their rows, bf16 on the device, row by row, with an optional bias. Made by fast::pack.
class fast_weights {
public:
    fast_weights() = default;

    [[nodiscard]] index rows() const noexcept { return rows_; }
    [[nodiscard]] index cols() const noexcept { return cols_; }
    /// How the elements are kept.
    [[nodiscard]] dtype type() const noexcept { return dtype::bf16; }

private:
    friend class fast;

    buffer<bf16, device_space> elements_;  // (rows, stride), zeros behind cols
    buffer<float, device_space> bias_;     // (rows) or empty
    index rows_ = 0;
    index cols_ = 0;
    index stride_ = 0;  // a multiple of product_step
};

/// Satisfies tensor_ops, and attention_backend over device_layer. Copies share a stream, as copies of cuda::exact do.
class fast {
public:
    using space = device_space;
    using scalar = float;
    using cache_type = device_cache;
    using linear_weights = fast_weights;
    using vector_weights = exact::vector_weights;
    static constexpr bool one_product_for_context = true;  ///< see draft_transformer
    static constexpr determinism guarantee = determinism::run_to_run;

    /// Errors: backend_error when there is no device.
    fast() : fast(exact()) {}
    /// In the stream of another backend. Errors: backend_error.
    explicit fast(exact rest) : rest_(std::move(rest)), shared_(std::make_shared<shared>()) {}

    /// What everything but a product is done by; for whatever takes a cuda::exact to work in its stream.
    operator const exact&() const noexcept { return rest_; }  // NOLINT(google-explicit-constructor)

    [[nodiscard]] cuda::context& context() const noexcept { return rest_.context(); }
    /// Until everything asked for has happened. Errors: backend_error for what went wrong on the way.
    void wait() const { rest_.wait(); }

    /// Stacks matrices (out_i, in) along out. Biases: none, or one for each part. Errors: config_error (also for
    /// matrices that are not bf16), backend_error.
    [[nodiscard]] linear_weights pack(std::span<const tensor_view> parts,
                                      std::span<const tensor_view> biases = {}) const {
        exact::check_parts(parts, biases);
        linear_weights w;
        w.cols_ = parts[0].cols;
        w.stride_ = (std::max)(index{1}, (w.cols_ + product_step - 1) / product_step) * product_step;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (parts[i].type != dtype::bf16) {
                raise<config_error>("pack: matrix ", i, " is ", name_of(parts[i].type), ", cuda::fast takes ",
                                    name_of(dtype::bf16), "; cuda::exact takes all");
            }
            w.rows_ += parts[i].rows;
        }
        exact::check_int("weights: rows", w.rows_);
        exact::check_int("weights: cols", w.cols_);
        w.elements_ = buffer<bf16, device_space>(w.rows_ * w.stride_);
        index first = 0;
        for (const tensor_view& part : parts) {
            const buffer<std::byte, device_space> stored = rest_.upload(part);
            to_bf16_rows(reinterpret_cast<const bf16*>(stored.data()), part.cols, part.rows, part.cols,
                         w.elements_.data() + first * w.stride_, w.stride_);
            wait();  // before the stored bytes go away
            first += part.rows;
        }
        if (!biases.empty()) {
            w.bias_ = buffer<float, device_space>(w.rows_);
            first = 0;
            for (const tensor_view& bias : biases) {
                rest_.widen(bias, w.bias_.data() + first);
                first += bias.rows * bias.cols;
            }
        }
        return w;
    }

    [[nodiscard]] vector_weights pack_vector(tensor_view vector) const { return rest_.pack_vector(vector); }

    /// y = x w^T (+ bias) with x rounded to bf16. Shapes: x (m, in), y (m, out). Errors: backend_error.
    void linear(matrix_view<const float, space> x, const linear_weights& w, matrix_view<float, space> y) const {
        expected::linear(x, w, y);
        if (y.empty()) {
            return;
        }
        bf16* rounded = context().scratch(shared_->rounded, x.rows() * w.stride_);
        to_bf16_rows(x.data(), x.stride(), x.rows(), x.cols(), rounded, w.stride_);
        shared_->products.multiply(context().stream(), {.m = x.rows(), .n = w.rows(), .k = w.stride_},
                                   w.elements_.data(), rounded, y.data(), y.stride());
        if (w.bias_.size() > 0) {
            context().launch<add_bias_kernel>(exact::columns(y.cols(), y.rows()),
                                              {w.bias_.data(), y.data(), y.stride(), exact::as_int(y.cols())});
        }
    }

    /// As exact::gather.
    void gather(const linear_weights& w, std::span<const token_id> ids, matrix_view<float, space> y) const {
        expected::gather(w, size_of(ids), y);
        if (y.empty()) {
            return;
        }
        rest_.with_ids(ids, w.rows(), [&](const token_id* read) {
            context().launch<gather_rows_kernel>(exact::columns(y.cols(), y.rows()),
                                                 {w.elements_.data(), w.stride_, read, y.data(), y.stride(),
                                                  exact::as_int(w.rows()), exact::as_int(w.cols())});
        });
    }

    void rms_norm(matrix_view<const float, space> x, const vector_weights& w, float eps,
                  matrix_view<float, space> y) const {
        rest_.rms_norm(x, w, eps, y);
    }
    void rms_norm_heads(matrix_view<float, space> x, const vector_weights& w, float eps, index head_dim) const {
        rest_.rms_norm_heads(x, w, eps, head_dim);
    }
    void rope(matrix_view<float, space> x, index head_dim, const numerics::rope_table& table, index position) const {
        rest_.rope(x, head_dim, table, position);
    }
    void silu_mul(matrix_view<const float, space> gate_up, matrix_view<float, space> y) const {
        rest_.silu_mul(gate_up, y);
    }
    void add(matrix_view<float, space> h, matrix_view<const float, space> o) const { rest_.add(h, o); }
    void copy(matrix_view<const float, space> x, matrix_view<float, space> y) const { rest_.copy(x, y); }
    void write(device_cache& cache, index layer, index first, matrix_view<const float, space> keys,
               matrix_view<const float, space> values) const {
        rest_.write(cache, layer, first, keys, values);
    }
    void attend(const attention_call<float, device_layer, space>& call) const { rest_.attend(call); }
    template <class Body>
    void replay(const replay_key& key, index position, Body body) const {
        rest_.replay(key, position, std::move(body));
    }

private:
    struct shared {
        blas_lt products;
        buffer<bf16, device_space> rounded;  // inputs of a product
    };

    template <class From>
    void to_bf16_rows(const From* x, index x_stride, index rows, index cols, bf16* y, index y_stride) const {
        const index elements = rows * y_stride;
        if (elements > 0) {
            exact::check_int("weights: blocks of a matrix", elements / 256);
            context().launch<bf16_rows_kernel<From>>(exact::columns(elements, 1),
                                                     {x, x_stride, y, y_stride, elements, exact::as_int(cols)});
        }
    }

    exact rest_;
    std::shared_ptr<shared> shared_;
};

static_assert(tensor_ops_check<fast>());
static_assert(attention_backend<fast, float, device_layer>);

}  // namespace cuda

DFLASH_END_NAMESPACE
