// Controls: backends that are wrong in one way each. A property test that does not catch them proves nothing.
#pragma once

#include <dflash/cpu/exact.hpp>

namespace dflash::test {

/// Verify rows see the drafts to their right.
struct two_sided_mask : cpu::exact {
    using cpu::exact::exact;
    void attend(attention_call<float, contiguous_layer<float>> call) const {
        call.mask.causal = false;
        cpu::exact::attend(call);
    }
};

/// Queries are rotated as if every call began at position 0; keys stand where they should. (q is rotated before k.)
struct queries_from_zero : cpu::exact {
    using cpu::exact::exact;
    void rope(matrix_view<float> x, index head_dim, const numerics::rope_table& table, index position) const {
        query_ = !query_;
        cpu::exact::rope(x, head_dim, table, query_ ? 0 : position);
    }
    mutable bool query_ = false;
};

/// The number of partial sums is chosen from the load: one row is summed in two halves, a block in one go.
struct split_from_load : cpu::exact {
    using cpu::exact::exact;
    void linear(matrix_view<const float> x, const linear_weights& w, matrix_view<float> y) const {
        if (x.rows() > 1 || w.cols() < 4) {
            cpu::exact::linear(x, w, y);
            return;
        }
        const index half = x.cols() / 2;
        buffer<float> parts(2 * x.cols() + y.cols());
        for (index k = 0; k < x.cols(); ++k) {
            parts[k < half ? k : x.cols() + k] = x(0, k);
        }
        const matrix_view<float> second(parts.data() + 2 * x.cols(), 1, y.cols());
        cpu::exact::linear(matrix_view<const float>(parts.data(), 1, x.cols()), w, y);
        cpu::exact::linear(matrix_view<const float>(parts.data() + x.cols(), 1, x.cols()), w, second);
        for (index o = 0; o < y.cols(); ++o) {
            y(0, o) += second(0, o);
        }
    }
};

/// The inexact product feeds an addition, as a compiler that does not contract (or contracts elsewhere) would do it.
struct planted_contraction : cpu::exact {
    using cpu::exact::exact;
    void linear(matrix_view<const float> x, const linear_weights& w, matrix_view<float> y) const {
        if (x.rows() == 1) {
            cpu::exact::linear(x, w, y);
            return;
        }
        for (index i = 0; i < x.rows(); ++i) {
            for (index o = 0; o < y.cols(); ++o) {
                float sum = 0;
                for (index k = 0; k < x.cols(); ++k) {
                    volatile const float product = x(i, k) * w.at(o, k);
                    sum += product;
                }
                y(i, o) = w.bias() == nullptr ? sum : sum + w.bias()[o];
            }
        }
    }
};

}  // namespace dflash::test
