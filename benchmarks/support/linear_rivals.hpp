// What the linear benchmark is measured against: the memory, the multipliers, and Eigen's product.
//
// Compiled by itself with every flag that helps it (-march=native, OpenMP), so that the comparison is fair while the
// library is measured as users build it, for a generic machine.
#pragma once

#include <cstddef>
#include <memory>

namespace rivals {

/// Reads bytes once with all threads, and does nothing else. Returns something that depends on all of them.
double read_all(const void* data, std::size_t bytes, int threads);

/// Independent multiply-adds in registers, on all threads. Returns the floating-point operations done.
double multiply_add(int threads, double& sink);

/// The same in bf16 dot products, where this machine has them; otherwise nothing, and 0 operations.
double multiply_add_bf16(int threads, double& sink);

/// y = x w^T by Eigen, w column-major or row-major, whichever is faster. Shapes: w (n, k), x (m, k), y (m, n).
class eigen_products {
public:
    eigen_products(std::ptrdiff_t k, std::ptrdiff_t n, std::ptrdiff_t rows, int matrices, int threads);
    ~eigen_products();
    /// The product with one of the matrices.
    void run(int matrix, bool row_major);
    /// The largest difference from another result, relative to the largest element: are both the same product?
    double difference(const float* w, const float* x, const float* y);

private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace rivals
