// The smallest head that reads wanted words off given rows: W = T (X X^T)^-1 X, in double with explicit fma, so that
// its bits depend on no flag and no machine. For a few dozen rows that are not multiples of each other.
#pragma once

#include <span>
#include <vector>

#include <dflash/numerics/basic.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

class gram_solver {
public:
    explicit gram_solver(index width) : width_(width) {}

    /// The head shall read `word` off this row.
    void want(std::span<const float> row, token_id word) {
        rows_.emplace_back(row.begin(), row.end());
        words_.push_back(word);
    }

    /// Head rows (vocab, width) with head[word] . row = height for the wanted word and 0 for all others.
    /// Errors: config_error when rows depend on each other.
    [[nodiscard]] std::vector<float> solve(index vocab, double height) const {
        const std::size_t n = rows_.size();
        std::vector<std::vector<double>> l = cholesky();
        std::vector<float> head;
        for (token_id word = 0; word < static_cast<token_id>(vocab); ++word) {
            std::vector<double> x(n);
            for (std::size_t i = 0; i < n; ++i) {  // L y = t
                double sum = words_[i] == word ? height : 0.0;
                for (std::size_t k = 0; k < i; ++k) {
                    sum = numerics::fma(-l[i][k], x[k], sum);
                }
                x[i] = sum / l[i][i];
            }
            for (std::size_t i = n; i-- > 0;) {  // L^T x = y
                double sum = x[i];
                for (std::size_t k = i + 1; k < n; ++k) {
                    sum = numerics::fma(-l[k][i], x[k], sum);
                }
                x[i] = sum / l[i][i];
            }
            for (std::size_t c = 0; c < static_cast<std::size_t>(width_); ++c) {
                double sum = 0;
                for (std::size_t i = 0; i < n; ++i) {
                    sum = numerics::fma(x[i], static_cast<double>(rows_[i][c]), sum);
                }
                head.push_back(static_cast<float>(sum));
            }
        }
        return head;
    }

private:
    [[nodiscard]] double dot(std::size_t a, std::size_t b) const {
        double sum = 0;
        for (std::size_t c = 0; c < static_cast<std::size_t>(width_); ++c) {
            sum = numerics::fma(static_cast<double>(rows_[a][c]), static_cast<double>(rows_[b][c]), sum);
        }
        return sum;
    }

    [[nodiscard]] std::vector<std::vector<double>> cholesky() const {
        const std::size_t n = rows_.size();
        std::vector<std::vector<double>> l(n, std::vector<double>(n, 0.0));
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = 0; j <= i; ++j) {
                double sum = dot(i, j);
                for (std::size_t k = 0; k < j; ++k) {
                    sum = numerics::fma(-l[i][k], l[j][k], sum);
                }
                if (i == j && !(sum > 1e-6)) {
                    raise<config_error>("gram: row ", i, " depends on the rows before it");
                }
                l[i][j] = i == j ? numerics::sqrt(sum) : sum / l[j][j];
            }
        }
        return l;
    }

    index width_;
    std::vector<std::vector<float>> rows_;
    std::vector<token_id> words_;
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
