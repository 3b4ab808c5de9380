// Owning memory: a fixed-size array in a memory space.
//
// The host form is aligned to cache lines and starts out zero; large buffers are mapped lazily by the system, so that
// reserving room for a long context costs address space, not memory. A backend with another space specialises it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// `size` elements of T in Space. Backends specialise it for their own spaces.
template <class T, class Space = host_space>
class buffer;

/// Host memory, aligned to 64 bytes, zero-initialised, movable, not copyable.
template <class T>
class buffer<T, host_space> {
    static_assert(std::is_trivially_copyable_v<T>, "buffer<T>: T must be trivially copyable");

public:
    buffer() = default;

    /// Allocates size elements. Errors: backend_error when the memory is not there.
    explicit buffer(index size) : size_(size) {
        DFLASH_EXPECTS(size >= 0, "buffer: size ", size, " is negative");
        if (size == 0) {
            return;
        }
        constexpr auto limit = static_cast<std::size_t>((std::numeric_limits<index>::max)()) - alignment;
        if (static_cast<std::size_t>(size) > limit / sizeof(T)) {
            raise<backend_error>("buffer: ", size, " elements of ", sizeof(T), " bytes do not fit the address space");
        }
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T) + alignment;
        raw_ = std::calloc(bytes, 1);
        if (raw_ == nullptr) {
            raise<backend_error>("buffer: out of memory for ", bytes, " bytes");
        }
        const auto address = reinterpret_cast<std::uintptr_t>(raw_);
        const std::uintptr_t offset = (alignment - address % alignment) % alignment;
        data_ = reinterpret_cast<T*>(static_cast<std::byte*>(raw_) + offset);
    }

    buffer(buffer&& other) noexcept
        : raw_(std::exchange(other.raw_, nullptr)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    buffer& operator=(buffer&& other) noexcept {
        buffer taken(std::move(other));
        std::swap(raw_, taken.raw_);
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        return *this;
    }
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;
    ~buffer() { std::free(raw_); }

    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] T& operator[](index i) noexcept { return data_[i]; }
    [[nodiscard]] const T& operator[](index i) const noexcept { return data_[i]; }
    [[nodiscard]] index size() const noexcept { return size_; }

    /// The first rows * cols elements as a matrix.
    [[nodiscard]] matrix_view<T> matrix(index rows, index cols) {
        DFLASH_EXPECTS(rows * cols <= size_, "buffer: (", rows, ", ", cols, ") needs more than ", size_, " elements");
        return matrix_view<T>(data_, rows, cols);
    }

private:
    static constexpr std::size_t alignment = 64;

    void* raw_ = nullptr;
    T* data_ = nullptr;
    index size_ = 0;
};

DFLASH_END_NAMESPACE
