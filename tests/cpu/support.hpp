// Inputs and comparisons for the tests of the CPU backends.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <dflash/cpu/exact.hpp>
#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/convert.hpp>

#include "support/inputs.hpp"

namespace cpu_tests {

using dflash::index;
using dflash::matrix_view;

using dflash::test::content;
using dflash::test::draw;
using dflash::test::noise;

/// A matrix with a row stride and any alignment, poisoned outside its elements.
class matrix {
public:
    matrix(index rows, index cols, index padding = 0, index offset = 0)
        : rows_(rows), cols_(cols), stride_(cols + padding), offset_(offset) {
        data_.assign(static_cast<std::size_t>(rows * stride_ + offset + 1), dflash::numerics::not_a_number);
    }
    void fill(noise& random, content kind) {
        for (index r = 0; r < rows_; ++r) {
            for (index c = 0; c < cols_; ++c) {
                row(r)[c] = draw(random, kind);
            }
        }
    }
    float* row(index r) { return data_.data() + offset_ + r * stride_; }
    const float* row(index r) const { return data_.data() + offset_ + r * stride_; }
    matrix_view<float> view() { return {row(0), rows_, cols_, stride_}; }
    matrix_view<const float> view() const { return {row(0), rows_, cols_, stride_}; }
    index rows() const { return rows_; }
    index cols() const { return cols_; }
    /// Whether nothing outside the elements was written.
    bool padding_intact() const {
        for (index i = 0; i < static_cast<index>(data_.size()); ++i) {
            const index at = i - offset_;
            const bool element = at >= 0 && at / stride_ < rows_ && at % stride_ < cols_;
            const float value = data_[static_cast<std::size_t>(i)];
            if (!element && value == value) {
                return false;
            }
        }
        return true;
    }

private:
    index rows_;
    index cols_;
    index stride_;
    index offset_;
    std::vector<float> data_;
};

/// Elements whose bits differ; NaN equals NaN.
inline index differing(const float* a, const float* b, index n) {
    index count = 0;
    for (index i = 0; i < n; ++i) {
        count += dflash::numerics::canonical_bits(a[i]) != dflash::numerics::canonical_bits(b[i]) ? 1 : 0;
    }
    return count;
}

inline index differing(const matrix& a, const matrix& b) {
    index count = 0;
    for (index r = 0; r < a.rows(); ++r) {
        count += differing(a.row(r), b.row(r), a.cols());
    }
    return count;
}

/// The instruction sets this machine and this build can run.
inline std::vector<dflash::cpu::isa> instruction_sets() {
    using dflash::cpu::isa;
    std::vector<isa> sets;
    for (const isa set : {isa::scalar, isa::avx2, isa::avx512, isa::avx512_bf16, isa::neon, isa::native}) {
        if (dflash::cpu::available(set)) {
            sets.push_back(set);
        }
    }
    return sets;
}

inline dflash::cpu::exact backend(dflash::cpu::isa set, int threads) {
    return dflash::cpu::exact(dflash::cpu::exact_options{threads, set});
}

/// A stored tensor with its bytes, at an odd address.
class stored {
public:
    stored(dflash::dtype type, index rows, index cols) : type_(type), rows_(rows), cols_(cols) {
        bytes_.resize(static_cast<std::size_t>(rows * cols * dflash::size_of(type) + 1));
    }
    /// Rounds to the stored type.
    void set(index i, float value) {
        if (type_ == dflash::dtype::f32) {
            std::memcpy(at(i), &value, 4);
        } else {
            const std::uint16_t bits = type_ == dflash::dtype::bf16 ? dflash::numerics::to_bf16(value).bits
                                                                    : dflash::numerics::to_f16(value).bits;
            std::memcpy(at(i), &bits, 2);
        }
    }
    void set_bits(index i, std::uint16_t bits) { std::memcpy(at(i), &bits, 2); }
    float get(index i) const {
        if (type_ == dflash::dtype::f32) {
            float value = 0;
            std::memcpy(&value, at(i), 4);
            return value;
        }
        std::uint16_t bits = 0;
        std::memcpy(&bits, at(i), 2);
        return type_ == dflash::dtype::bf16 ? dflash::numerics::to_float(dflash::bf16{bits})
                                            : dflash::numerics::to_float(dflash::f16{bits});
    }
    void fill(noise& random, content kind) {
        for (index i = 0; i < rows_ * cols_; ++i) {
            set(i, draw(random, kind));
        }
    }
    dflash::tensor_view view() const { return {type_, bytes_.data() + 1, rows_, cols_}; }
    /// All elements widened.
    std::vector<float> widened() const {
        std::vector<float> out;
        for (index i = 0; i < rows_ * cols_; ++i) {
            out.push_back(get(i));
        }
        return out;
    }

private:
    std::byte* at(index i) { return bytes_.data() + 1 + i * dflash::size_of(type_); }
    const std::byte* at(index i) const { return bytes_.data() + 1 + i * dflash::size_of(type_); }

    dflash::dtype type_;
    index rows_;
    index cols_;
    std::vector<std::byte> bytes_;
};

inline std::string label(dflash::cpu::isa set, int threads) {
    return std::string(dflash::cpu::name_of(set)) + ", " + std::to_string(threads) + " threads";
}

}  // namespace cpu_tests
