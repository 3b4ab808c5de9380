#include "peers/products.hpp"

#if defined(DFLASH_PEER_OPENBLAS)
#include <cblas.h>
#endif

namespace dflash::bench {

#if defined(DFLASH_PEER_OPENBLAS)

namespace {

class openblas_products final : public product_engine {
public:
    explicit openblas_products(const product_task& task) : k_(task.k), n_(task.n) {
        openblas_set_num_threads(task.threads);
        for (int i = 0; i < task.matrices; ++i) {
            weights_.emplace_back(task.weights.begin(), task.weights.end());
        }
    }

    void prepare(std::span<const float> x, index rows) override {
        x_.assign(x.begin(), x.begin() + rows * k_);
        y_.assign(static_cast<std::size_t>(rows * n_), 0.0F);
        rows_ = rows;
    }

    void run(int matrix) override {
        const float* w = weights_[static_cast<std::size_t>(matrix)].data();
        const auto k = static_cast<blasint>(k_);
        const auto n = static_cast<blasint>(n_);
        if (rows_ == 1) {
            cblas_sgemv(CblasRowMajor, CblasNoTrans, n, k, 1.0F, w, k, x_.data(), 1, 0.0F, y_.data(), 1);
        } else {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(rows_), n, k, 1.0F, x_.data(), k,
                        w, k, 0.0F, y_.data(), n);
        }
    }

    std::vector<float> result() override { return y_; }

private:
    index k_;
    index n_;
    index rows_ = 0;
    std::vector<std::vector<float>> weights_;
    std::vector<float> x_;
    std::vector<float> y_;
};

}  // namespace

std::unique_ptr<product_engine> make_openblas_products(const product_task& task) {
    return task.type == dtype::f32 ? std::make_unique<openblas_products>(task) : nullptr;
}

#else

std::unique_ptr<product_engine> make_openblas_products(const product_task&) {
    return nullptr;
}

#endif

}  // namespace dflash::bench
