// The bytes of hand-made weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// Owns the bytes that tensor views point into.
class tensor_store {
public:
    /// Stores floats as they are. Shape: (rows, cols).
    tensor_view floats(const std::vector<float>& values, index rows, index cols) {
        std::vector<std::byte>& bytes = bytes_.emplace_back(values.size() * sizeof(float));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return {dtype::f32, bytes.data(), rows, cols};
    }
    /// Stores bf16 patterns. Shape: (rows, cols).
    tensor_view halves(const std::vector<std::uint16_t>& bits, index rows, index cols) {
        std::vector<std::byte>& bytes = bytes_.emplace_back(bits.size() * sizeof(std::uint16_t));
        std::memcpy(bytes.data(), bits.data(), bytes.size());
        return {dtype::bf16, bytes.data(), rows, cols};
    }
    tensor_view constant(float value, index rows, index cols) {
        return floats(std::vector<float>(static_cast<std::size_t>(rows * cols), value), rows, cols);
    }

private:
    std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
