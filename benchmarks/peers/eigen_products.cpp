// Compiled with -march=native, as no other file that knows the library: only its vocabulary is included here.
#include <Eigen/Core>

#include "peers/products.hpp"

namespace dflash::bench {

namespace {

using row_major_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using column_major_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

/// Weights as stored, or transposed for column-major products; the caller tries both.
template <class Weights>
class eigen_products final : public product_engine {
public:
    explicit eigen_products(const product_task& task) {
        Eigen::setNbThreads(task.threads);
        const Eigen::Map<const row_major_matrix> w(task.weights.data(), task.n, task.k);
        for (int i = 0; i < task.matrices; ++i) {
            weights_.emplace_back(w);
        }
    }

    void prepare(std::span<const float> x, index rows) override {
        const index k = static_cast<index>(weights_.front().cols());
        x_ = Eigen::Map<const column_major_matrix>(x.data(), k, rows);
        y_.resize(weights_.front().rows(), rows);
    }

    void run(int matrix) override { y_.noalias() = weights_[static_cast<std::size_t>(matrix)] * x_; }

    std::vector<float> result() override { return {y_.data(), y_.data() + y_.size()}; }

private:
    std::vector<Weights> weights_;
    column_major_matrix x_;  // (k, m)
    column_major_matrix y_;  // (n, m)
};

}  // namespace

std::unique_ptr<product_engine> make_eigen_products(const product_task& task, bool row_major) {
    if (task.type != dtype::f32) {
        return nullptr;
    }
    if (row_major) {
        return std::make_unique<eigen_products<row_major_matrix>>(task);
    }
    return std::make_unique<eigen_products<column_major_matrix>>(task);
}

}  // namespace dflash::bench
