// Contenders for one matrix product: y = x w^T with x (m, k), w (n, k), y (m, n), all row-major to the caller.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dflash/vocabulary.hpp>

namespace dflash::bench {

/// Several matrices of one shape, so that they take turns and come from memory.
struct product_task {
    index k = 0;
    index n = 0;
    int matrices = 0;
    int threads = 0;
    dtype type = dtype::f32;
    std::span<const float> weights;  ///< (n, k), the same values for every matrix
};

class product_engine {
public:
    product_engine() = default;
    product_engine(const product_engine&) = delete;
    product_engine& operator=(const product_engine&) = delete;
    virtual ~product_engine() = default;

    /// Gets ready for products with so many rows: x (rows, k). Packs weights again where that helps.
    virtual void prepare(std::span<const float> x, index rows) = 0;
    virtual void run(int matrix) = 0;
    /// The last product, (rows, n). Row-major.
    virtual std::vector<float> result() = 0;
};

/// Where a library is missing in this build, or has no such product, the pointer is null.
[[nodiscard]] std::unique_ptr<product_engine> make_eigen_products(const product_task& task, bool row_major);
[[nodiscard]] std::unique_ptr<product_engine> make_openblas_products(const product_task& task);
[[nodiscard]] std::unique_ptr<product_engine> make_onednn_products(const product_task& task);

}  // namespace dflash::bench
