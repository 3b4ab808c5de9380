// Device matrices and comparisons for the tests of the CUDA backend. Inputs are those of the CPU backend's tests.
#pragma once

#include <vector>

#include <doctest/doctest.h>
#include <dflash/cuda/exact.hpp>

#include "cpu/support.hpp"

namespace cuda_tests {

using cpu_tests::content;
using cpu_tests::differing;
using cpu_tests::matrix;
using cpu_tests::noise;
using cpu_tests::stored;
using dflash::index;
using dflash::matrix_view;
using dflash::cuda::device_space;
namespace numerics = dflash::numerics;

/// A matrix on the device with the stride of its host twin, poisoned outside its elements.
class device_matrix {
public:
    /// A copy of `source`, poison included.
    device_matrix(const dflash::cuda::exact& ops, const matrix& source)
        : rows_(source.rows()), cols_(source.cols()), stride_(source.view().stride()), memory_(rows_ * stride_) {
        copy(ops, memory_.data(), source.row(0), rows_ * stride_);
    }
    /// Poison.
    device_matrix(const dflash::cuda::exact& ops, index rows, index cols, index padding = 0)
        : device_matrix(ops, matrix(rows, cols, padding)) {}

    matrix_view<float, device_space> view() { return {memory_.data(), rows_, cols_, stride_}; }

    /// What is there when everything asked for has happened.
    matrix host(const dflash::cuda::exact& ops) const {
        matrix result(rows_, cols_, stride_ - cols_);
        copy(ops, result.row(0), memory_.data(), rows_ * stride_);
        ops.wait();
        return result;
    }

private:
    // Padding behind the last row belongs to no view, so that it is not copied.
    void copy(const dflash::cuda::exact& ops, float* to, const float* from, index count) const {
        dflash::cuda::runtime::copy(to, from, static_cast<std::size_t>(count - (stride_ - cols_)) * sizeof(float),
                                    ops.context().stream());
    }

    index rows_;
    index cols_;
    index stride_;
    dflash::buffer<float, device_space> memory_;
};

}  // namespace cuda_tests
