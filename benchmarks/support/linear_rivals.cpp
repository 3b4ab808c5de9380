#include "linear_rivals.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace rivals {

namespace {

using index = std::ptrdiff_t;

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX2__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
using words = std::uint32_t __attribute__((vector_size(4 * lanes)));
using floats = float __attribute__((vector_size(4 * lanes)));

}  // namespace

double read_all(const void* data, std::size_t bytes, int threads) {
    // Four streams and a look ahead: the fastest plain read found.
    constexpr index block = 8192;
    constexpr index stream = block / 4;
    constexpr index ahead = 2048 / static_cast<index>(sizeof(words));
    const auto* first = static_cast<const words*>(data);
    const auto count = static_cast<index>(bytes / sizeof(words));
    const index blocks = count / block;
    std::uint32_t total = 0;
    static_cast<void>(threads);
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        words sum[8] = {};
#pragma omp for schedule(dynamic, 1) nowait
        for (index b = 0; b <= blocks; ++b) {
            const words* p = first + b * block;
            if (b == blocks) {
                for (index i = b * block; i < count; ++i) {
                    sum[0] ^= first[i];
                }
                continue;
            }
            for (index i = 0; i < stream; i += 2) {
#pragma GCC unroll 4
                for (index j = 0; j < 4; ++j) {
                    const words* q = p + j * stream + i;
                    __builtin_prefetch(q + ahead);
                    __builtin_prefetch(q + ahead + 1);
                    sum[2 * j] ^= q[0];
                    sum[2 * j + 1] ^= q[1];
                }
            }
        }
        for (const words& s : sum) {
            for (int l = 0; l < lanes; ++l) {
                total += s[l];
            }
        }
    }
    return static_cast<double>(total);
}

double multiply_add(int threads, double& sink) {
    constexpr int chains = 16;
    constexpr index steps = 100000;
    double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        floats acc[chains];
        floats factor = {};
        floats term = {};
        factor = factor + 0.999F;
        term = term + 0.001F;
        for (int c = 0; c < chains; ++c) {
            acc[c] = term * static_cast<float>(c);
        }
        for (index i = 0; i < steps; ++i) {
#pragma GCC unroll 16
            for (int c = 0; c < chains; ++c) {
                acc[c] = acc[c] * factor + term;
            }
        }
        for (int c = 0; c < chains; ++c) {
            total += static_cast<double>(acc[c][0]);
        }
    }
    sink += total;
    return 2.0 * lanes * chains * static_cast<double>(steps) * threads;
}

double multiply_add_bf16(int threads, double& sink) {
#if defined(__AVX512BF16__)
    constexpr int chains = 16;
    constexpr index steps = 100000;
    double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        __m512 acc[chains];
        for (int c = 0; c < chains; ++c) {
            acc[c] = _mm512_set1_ps(static_cast<float>(c));
        }
        const auto a = (__m512bh)_mm512_set1_epi32(0x3F003E80);
        auto b = (__m512bh)_mm512_set1_epi32(0x3E803D00);
        for (index i = 0; i < steps; ++i) {
            asm("" : "+v"(b));  // the products are computed again in every step
#pragma GCC unroll 16
            for (int c = 0; c < chains; ++c) {
                acc[c] = _mm512_dpbf16_ps(acc[c], a, b);
            }
        }
        for (int c = 0; c < chains; ++c) {
            total += static_cast<double>(acc[c][0]);
        }
    }
    sink += total;
    return 4.0 * 16 * chains * static_cast<double>(steps) * threads;
#else
    static_cast<void>(threads);
    static_cast<void>(sink);
    return 0;
#endif
}

struct eigen_products::state {
    using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using column_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
    std::vector<row_major> by_rows;
    std::vector<column_major> by_columns;
    column_major x;  // (k, m)
    column_major y;  // (n, m)
};

eigen_products::eigen_products(index k, index n, index rows, int matrices, int threads)
    : state_(std::make_unique<state>()) {
    Eigen::setNbThreads(threads);
    for (int i = 0; i < matrices; ++i) {
        state_->by_rows.emplace_back(n, k);
        state_->by_rows.back().setRandom();
        state_->by_columns.emplace_back(state_->by_rows.back());
    }
    state_->x = state::column_major::Random(k, rows);
    state_->y.resize(n, rows);
}

eigen_products::~eigen_products() = default;

void eigen_products::run(int matrix, bool row_major) {
    const auto i = static_cast<std::size_t>(matrix);
    if (row_major) {
        state_->y.noalias() = state_->by_rows[i] * state_->x;
    } else {
        state_->y.noalias() = state_->by_columns[i] * state_->x;
    }
}

double eigen_products::difference(const float* w, const float* x, const float* y) {
    const index n = state_->y.rows();
    const index m = state_->y.cols();
    const index k = state_->x.rows();
    const Eigen::Map<const state::row_major> wm(w, n, k);
    const Eigen::Map<const state::column_major> xm(x, k, m);
    const Eigen::Map<const state::column_major> ym(y, n, m);
    const state::column_major product = wm * xm;
    return static_cast<double>((product - ym).cwiseAbs().maxCoeff() / product.cwiseAbs().maxCoeff());
}

}  // namespace rivals
