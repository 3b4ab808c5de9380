// The reference backend: the mathematics in Eigen, in any scalar type, written to be read.
//
// It follows the formulas, not the order of operations: in float64 it judges how accurate the exact backend is, and
// with Eigen's products it shows why batch invariance needs care. It never promises equal bits.
#pragma once

#include <cmath>
#include <span>
#include <utility>

#include <Eigen/Core>
#include <dflash/cache/contiguous.hpp>
#include <dflash/concepts/attention.hpp>
#include <dflash/concepts/ops.hpp>
#include <dflash/concepts/preconditions.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

/// tensor_ops and attention_backend in Scalar (float, double, long double), on one thread.
template <class Scalar>
class reference {
    using matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using vector = Eigen::Matrix<Scalar, 1, Eigen::Dynamic>;
    using stride = Eigen::OuterStride<>;
    using input = Eigen::Map<const matrix, Eigen::Unaligned, stride>;
    using output = Eigen::Map<matrix, Eigen::Unaligned, stride>;

public:
    using space = host_space;
    using scalar = Scalar;
    using cache_type = contiguous_cache<Scalar>;
    static constexpr determinism guarantee = determinism::run_to_run;

    /// (out, in) and a bias of out elements, or none.
    class linear_weights {
    public:
        [[nodiscard]] index rows() const noexcept { return weights.rows(); }
        [[nodiscard]] index cols() const noexcept { return weights.cols(); }

    private:
        friend class reference;
        matrix weights;
        vector bias;
    };

    class vector_weights {
    public:
        [[nodiscard]] index size() const noexcept { return values.size(); }

    private:
        friend class reference;
        vector values;
    };

    [[nodiscard]] linear_weights pack(std::span<const tensor_view> parts, std::span<const tensor_view> biases) const {
        if (parts.empty() || (!biases.empty() && biases.size() != parts.size())) {
            raise<config_error>("pack: ", parts.size(), " matrices and ", biases.size(), " biases");
        }
        index rows = 0;
        for (const tensor_view& part : parts) {
            if (part.cols != parts.front().cols) {
                raise<config_error>("pack: matrices of ", parts.front().cols, " and ", part.cols, " inputs");
            }
            rows += part.rows;
        }
        linear_weights packed;
        packed.weights.resize(rows, parts.front().cols);
        packed.bias.resize(biases.empty() ? 0 : rows);
        index first = 0;
        for (std::size_t p = 0; p < parts.size(); ++p) {
            for (index r = 0; r < parts[p].rows; ++r) {
                for (index c = 0; c < parts[p].cols; ++c) {
                    packed.weights(first + r, c) = static_cast<Scalar>(parts[p].element(r, c));
                }
                if (!biases.empty()) {
                    packed.bias(first + r) = static_cast<Scalar>(biases[p].element(0, r));
                }
            }
            first += parts[p].rows;
        }
        return packed;
    }

    [[nodiscard]] vector_weights pack_vector(const tensor_view& stored) const {
        vector_weights packed;
        packed.values.resize(stored.cols);
        for (index i = 0; i < stored.cols; ++i) {
            packed.values(i) = static_cast<Scalar>(stored.element(0, i));
        }
        return packed;
    }

    // y = x W^T + b
    void linear(matrix_view<const Scalar> x, const linear_weights& w, matrix_view<Scalar> y) const {
        expected::linear(x, w, y);
        map(y).noalias() = map(x) * w.weights.transpose();
        if (w.bias.size() > 0) {
            map(y).rowwise() += w.bias;
        }
    }

    void gather(const linear_weights& w, std::span<const token_id> ids, matrix_view<Scalar> y) const {
        expected::gather(w, size_of(ids), y);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (ids[i] < 0 || ids[i] >= w.rows()) {
                raise<config_error>("token ", i, " is ", ids[i], ", the table has rows 0 .. ", w.rows() - 1);
            }
            map(y).row(static_cast<index>(i)) = w.weights.row(ids[i]);
        }
    }

    // y = x / sqrt(mean(x^2) + eps) * w
    void rms_norm(matrix_view<const Scalar> x, const vector_weights& w, float eps, matrix_view<Scalar> y) const {
        expected::rms_norm(x, w.size(), y);
        for (index i = 0; i < x.rows(); ++i) {
            norm_row(x.data() + i * x.stride(), y.data() + i * y.stride(), w.values, eps);
        }
    }

    void rms_norm_heads(matrix_view<Scalar> x, const vector_weights& w, float eps, index head_dim) const {
        expected::rms_norm_heads(x, w.size(), head_dim);
        for (index i = 0; i < x.rows(); ++i) {
            for (index c = 0; c < x.cols(); c += head_dim) {
                Scalar* head = x.data() + i * x.stride() + c;
                norm_row(head, head, w.values, eps);
            }
        }
    }

    // (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), halves of a head paired
    void rope(matrix_view<Scalar> x, index head_dim, const numerics::rope_table& table, index position) const {
        expected::rope(x, head_dim, table, position);
        const index half = head_dim / 2;
        for (index i = 0; i < x.rows(); ++i) {
            const float* cos = table.cos(position + i);
            const float* sin = table.sin(position + i);
            for (index c = 0; c < x.cols(); c += head_dim) {
                Scalar* head = x.data() + i * x.stride() + c;
                for (index k = 0; k < half; ++k) {
                    const Scalar a = head[k];
                    const Scalar b = head[k + half];
                    head[k] = a * static_cast<Scalar>(cos[k]) - b * static_cast<Scalar>(sin[k]);
                    head[k + half] = b * static_cast<Scalar>(cos[k]) + a * static_cast<Scalar>(sin[k]);
                }
            }
        }
    }

    // silu(gate) * up
    void silu_mul(matrix_view<const Scalar> gate_up, matrix_view<Scalar> y) const {
        expected::silu_mul(gate_up, y);
        const auto gate = map(gate_up.columns(0, y.cols())).array();
        const auto up = map(gate_up.columns(y.cols(), y.cols())).array();
        map(y).array() = gate / (Scalar{1} + (-gate).exp()) * up;
    }

    void add(matrix_view<Scalar> h, matrix_view<const Scalar> o) const {
        expected::same_shape("add", o, h);
        map(h) += map(o);
    }

    template <class From, class To>
    void copy(matrix_view<From> x, matrix_view<To> y) const {
        expected::same_shape("copy", x, y);
        for (index i = 0; i < x.rows(); ++i) {
            for (index c = 0; c < x.cols(); ++c) {
                y.data()[i * y.stride() + c] = static_cast<To>(x.data()[i * x.stride() + c]);
            }
        }
    }

    // softmax(q k^T * scale) v over the visible keys
    void attend(const attention_call<Scalar, contiguous_layer<Scalar>>& call) const {
        expected::attend(call);
        const index group = call.heads / call.kv_heads;
        vector weights;
        for (index i = 0; i < call.queries.rows(); ++i) {
            const key_range seen = call.mask.keys(call.position + i, call.cache.length());
            weights.resize(seen.last - seen.first);
            for (index h = 0; h < call.heads; ++h) {
                const Scalar* q = call.queries.data() + i * call.queries.stride() + h * call.head_dim;
                Scalar* out = call.out.data() + i * call.out.stride() + h * call.head_dim;
                for (index j = seen.first; j < seen.last; ++j) {
                    Scalar score = 0;
                    for (index d = 0; d < call.head_dim; ++d) {
                        score += q[d] * call.cache.key(h / group, j, d);
                    }
                    weights(j - seen.first) = score * static_cast<Scalar>(call.scale);
                }
                weights = (weights.array() - weights.maxCoeff()).exp().matrix().eval();
                weights /= weights.sum();
                for (index d = 0; d < call.head_dim; ++d) {
                    Scalar sum = 0;
                    for (index j = seen.first; j < seen.last; ++j) {
                        sum += weights(j - seen.first) * call.cache.value(h / group, j, d);
                    }
                    out[d] = sum;
                }
            }
        }
    }

private:
    static input map(matrix_view<const Scalar> x) { return input(x.data(), x.rows(), x.cols(), stride(x.stride())); }
    static output map(matrix_view<Scalar> x) { return output(x.data(), x.rows(), x.cols(), stride(x.stride())); }

    static void norm_row(const Scalar* x, Scalar* y, const vector& w, float eps) {
        const Eigen::Map<const vector> in(x, w.size());
        const Scalar r =
            Scalar{1} / std::sqrt(in.squaredNorm() / static_cast<Scalar>(w.size()) + static_cast<Scalar>(eps));
        Eigen::Map<vector>(y, w.size()) = (in * r).cwiseProduct(w);
    }
};

}  // namespace cpu

DFLASH_END_NAMESPACE
