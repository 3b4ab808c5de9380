// The words everything else is written in: token ids, indices, element types, memory spaces, views, determinism.
//
// Views own nothing. A view carries the memory space of its data as a type, so that a device view cannot reach a CPU
// operation: only host views can be dereferenced.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <dflash/contracts.hpp>

DFLASH_BEGIN_NAMESPACE

/// A vocabulary entry. Valid ids are 0 .. vocab_size - 1; negative values never are.
using token_id = std::int32_t;

/// Sizes, positions and offsets. Signed and 64 bits wide, so that products of shapes do not wrap.
using index = std::ptrdiff_t;

/// How far a result can be relied on to be the same bits. Ordered: a later value includes the earlier ones.
enum class determinism : std::uint8_t {
    none,             ///< may differ from run to run
    run_to_run,       ///< same inputs in the same calls on the same machine
    batch_invariant,  ///< also however the rows are grouped into calls, and for any thread count
    cross_isa,        ///< also on any machine that follows the documented arithmetic
};

/// Memory the CPU can dereference.
struct host_space {};

/// Where the tokens of a model live whose views are in Space: `type` is a space that the host can dereference. A
/// backend whose kernels choose tokens names memory that both sides see; such tokens are there once a verdict has come
/// back.
template <class Space>
struct token_space {
    using type = host_space;
};

/// bfloat16 as stored: the high half of a binary32.
struct bf16 {
    std::uint16_t bits = 0;
    friend constexpr bool operator==(bf16, bf16) = default;
};

/// IEEE binary16 as stored.
struct f16 {
    std::uint16_t bits = 0;
    friend constexpr bool operator==(f16, f16) = default;
};

/// Element types of stored weights.
enum class dtype : std::uint8_t { f32, bf16, f16 };

/// Bytes of one element.
[[nodiscard]] constexpr index size_of(dtype type) noexcept {
    return type == dtype::f32 ? 4 : 2;
}

/// The name safetensors uses.
[[nodiscard]] constexpr std::string_view name_of(dtype type) noexcept {
    switch (type) {
        case dtype::f32: return "F32";
        case dtype::bf16: return "BF16";
        case dtype::f16: return "F16";
    }
    return "?";
}

/// What a linear with bf16 weights does to its input first: nothing, or round it to bf16. Other weights ignore it.
enum class activation_type : std::uint8_t { f32, bf16 };

[[nodiscard]] constexpr std::string_view name_of(activation_type type) noexcept {
    return type == activation_type::bf16 ? "bf16" : "f32";
}

/// Rows of equally long, contiguous elements; `stride` elements from one row to the next (stride >= cols).
template <class T, class Space = host_space>
class matrix_view {
public:
    using value_type = std::remove_const_t<T>;
    using space = Space;

    constexpr matrix_view() = default;
    constexpr matrix_view(T* data, index rows, index cols) : matrix_view(data, rows, cols, cols) {}
    constexpr matrix_view(T* data, index rows, index cols, index stride)
        : data_(data), rows_(rows), cols_(cols), stride_(stride) {
        DFLASH_EXPECTS(rows >= 0 && cols >= 0 && stride >= cols, "matrix_view: shape (", rows, ", ", cols,
                       ") does not fit stride ", stride);
    }

    /// A mutable view is a const view.
    template <class U>
        requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
    constexpr matrix_view(const matrix_view<U, Space>& other)  // NOLINT(google-explicit-constructor)
        : matrix_view(other.data(), other.rows(), other.cols(), other.stride()) {}

    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] constexpr index rows() const noexcept { return rows_; }
    [[nodiscard]] constexpr index cols() const noexcept { return cols_; }
    [[nodiscard]] constexpr index stride() const noexcept { return stride_; }
    [[nodiscard]] constexpr bool empty() const noexcept { return rows_ == 0 || cols_ == 0; }

    /// Rows first .. first + count - 1.
    [[nodiscard]] constexpr matrix_view rows(index first, index count) const {
        DFLASH_EXPECTS(first >= 0 && count >= 0 && first + count <= rows_, "matrix_view: rows ", first, " + ", count,
                       " are outside ", rows_);
        return matrix_view(data_ + first * stride_, count, cols_, stride_);
    }

    /// Columns first .. first + count - 1.
    [[nodiscard]] constexpr matrix_view columns(index first, index count) const {
        DFLASH_EXPECTS(first >= 0 && count >= 0 && first + count <= cols_, "matrix_view: columns ", first, " + ", count,
                       " are outside ", cols_);
        return matrix_view(data_ + first, rows_, count, stride_);
    }

    /// One row (host memory only).
    [[nodiscard]] constexpr std::span<T> row(index r) const
        requires std::is_same_v<Space, host_space>
    {
        DFLASH_EXPECTS(r >= 0 && r < rows_, "matrix_view: row ", r, " is outside ", rows_);
        return {data_ + r * stride_, static_cast<std::size_t>(cols_)};
    }

    /// One element (host memory only).
    [[nodiscard]] constexpr T& operator()(index r, index c) const
        requires std::is_same_v<Space, host_space>
    {
        DFLASH_EXPECTS(r >= 0 && r < rows_ && c >= 0 && c < cols_, "matrix_view: (", r, ", ", c, ") is outside (",
                       rows_, ", ", cols_, ")");
        return data_[r * stride_ + c];
    }

private:
    T* data_ = nullptr;
    index rows_ = 0;
    index cols_ = 0;
    index stride_ = 0;
};

/// The length of a span as an index.
template <class T, std::size_t Extent>
[[nodiscard]] constexpr index size_of(std::span<T, Extent> s) noexcept {
    return static_cast<index>(s.size());
}

DFLASH_END_NAMESPACE
