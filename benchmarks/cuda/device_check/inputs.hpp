// Inputs that break shortcuts, matrices on both sides, comparison bit for bit, and loops over all cores for the scalar
// specification.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <dflash/cuda/exact.hpp>
#include <dflash/numerics/basic.hpp>
#include <dflash/numerics/convert.hpp>

#include "report.hpp"
#include "support/inputs.hpp"

namespace device_check {

namespace numerics = dflash::numerics;
namespace cuda = dflash::cuda;
using cuda::device_space;
using dflash::dtype;
using dflash::matrix_view;
using dflash::token_id;

using dflash::test::content;
using dflash::test::draw;
using dflash::test::noise;

/// Rows on the host, NaN at first, with `padding` elements behind each that nobody may touch.
class host_matrix {
public:
    host_matrix(index rows, index cols, index padding = 0)
        : rows_(rows),
          cols_(cols),
          stride_(cols + padding),
          data_(static_cast<std::size_t>(rows * stride_), numerics::not_a_number) {}

    void fill(noise& random, content kind) {
        for (index r = 0; r < rows_; ++r) {
            std::generate_n(row(r), cols_, [&] { return draw(random, kind); });
        }
    }
    /// Infinity and NaN by turns.
    void spoil(index r) {
        for (index c = 0; c < cols_; ++c) {
            row(r)[c] = c % 2 == 0 ? numerics::infinity : numerics::not_a_number;
        }
    }

    [[nodiscard]] float* row(index r) { return data_.data() + r * stride_; }
    [[nodiscard]] const float* row(index r) const { return data_.data() + r * stride_; }
    [[nodiscard]] index rows() const { return rows_; }
    [[nodiscard]] index cols() const { return cols_; }
    [[nodiscard]] index stride() const { return stride_; }
    [[nodiscard]] matrix_view<const float> view() const { return {data_.data(), rows_, cols_, stride_}; }
    [[nodiscard]] std::size_t bytes() const { return data_.size() * sizeof(float); }
    /// Elements between the rows that were written.
    [[nodiscard]] index touched_padding() const {
        index count = 0;
        for (index r = 0; r < rows_; ++r) {
            count += stride_ - cols_ - std::count_if(row(r) + cols_, row(r) + stride_, [](float x) { return x != x; });
        }
        return count;
    }

private:
    index rows_;
    index cols_;
    index stride_;
    std::vector<float> data_;
};

/// The same rows on the device.
class device_matrix {
public:
    /// A copy, padding included.
    device_matrix(const cuda::exact& ops, const host_matrix& source)
        : rows_(source.rows()), cols_(source.cols()), stride_(source.stride()), memory_(rows_ * stride_) {
        cuda::runtime::copy(memory_.data(), source.row(0), source.bytes(), ops.context().stream());
    }
    /// Nothing but NaN.
    device_matrix(const cuda::exact& ops, index rows, index cols, index padding = 0)
        : device_matrix(ops, host_matrix(rows, cols, padding)) {}

    [[nodiscard]] matrix_view<float, device_space> view() { return {memory_.data(), rows_, cols_, stride_}; }

    /// What is there when everything asked for has happened.
    [[nodiscard]] host_matrix host(const cuda::exact& ops) const {
        host_matrix out(rows_, cols_, stride_ - cols_);
        cuda::runtime::copy(out.row(0), memory_.data(), out.bytes(), ops.context().stream());
        ops.wait();
        return out;
    }

private:
    index rows_;
    index cols_;
    index stride_;
    dflash::buffer<float, device_space> memory_;
};

/// A stored matrix: its bytes, and its elements widened.
class stored {
public:
    stored(dtype type, index rows, index cols)
        : type_(type), rows_(rows), cols_(cols), bytes_(static_cast<std::size_t>(rows * cols * size_of(type))) {}

    void fill(noise& random, content kind) {
        wide_.resize(static_cast<std::size_t>(rows_ * cols_));
        for (std::size_t i = 0; i < wide_.size(); ++i) {
            const float value = draw(random, kind);
            if (type_ == dtype::f32) {
                std::memcpy(bytes_.data() + 4 * i, &value, 4);
                wide_[i] = value;
            } else {
                const dflash::bf16 as_bf16 = numerics::to_bf16(value);
                const dflash::f16 as_f16 = numerics::to_f16(value);
                const std::uint16_t bits = type_ == dtype::bf16 ? as_bf16.bits : as_f16.bits;
                std::memcpy(bytes_.data() + 2 * i, &bits, 2);
                wide_[i] = type_ == dtype::bf16 ? numerics::to_float(as_bf16) : numerics::to_float(as_f16);
            }
        }
    }

    [[nodiscard]] dflash::tensor_view view() const { return {type_, bytes_.data(), rows_, cols_}; }
    [[nodiscard]] const std::vector<float>& widened() const { return wide_; }

private:
    dtype type_;
    index rows_;
    index cols_;
    std::vector<std::byte> bytes_;
    std::vector<float> wide_;
};

/// Elements whose bits differ; NaN equals NaN.
inline index differing(const float* a, const float* b, index n) {
    index count = 0;
    for (index i = 0; i < n; ++i) {
        count += numerics::canonical_bits(a[i]) != numerics::canonical_bits(b[i]) ? 1 : 0;
    }
    return count;
}

inline index differing(const host_matrix& a, const host_matrix& b) {
    index count = a.touched_padding() + b.touched_padding();
    for (index r = 0; r < a.rows(); ++r) {
        count += differing(a.row(r), b.row(r), a.cols());
    }
    return count;
}

/// Calls body(i) for 0 .. n - 1, on all cores.
template <class Body>
void on_all_cores(index n, Body body) {
    const index workers = (std::min)(n, static_cast<index>((std::max)(1U, std::thread::hardware_concurrency())));
    std::vector<std::thread> threads;
    for (index w = 0; w < workers; ++w) {
        threads.emplace_back([&, w] {
            for (index i = w; i < n; i += workers) {
                body(i);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

/// Counts over several cases of one kind.
struct tally {
    index compared = 0;
    index differing = 0;

    void add(const host_matrix& a, const host_matrix& b) {
        compared += a.rows() * a.cols();
        differing += device_check::differing(a, b);
    }
    void add(bool equal) {
        compared += 1;
        differing += equal ? 0 : 1;
    }
};

}  // namespace device_check
