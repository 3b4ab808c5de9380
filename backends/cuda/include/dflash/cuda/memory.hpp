// Memory of a device and pinned memory of the host, as buffers of the library.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <dflash/buffer.hpp>
#include <dflash/contracts.hpp>
#include <dflash/cuda/runtime.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Memory that only kernels can dereference.
struct device_space {};

/// Host memory that kernels read and write, too, through the same pointer. What a kernel wrote is there once the stream
/// has been waited for.
struct pinned_space {};

namespace detail {

/// Owns one piece of memory that Services allocates and releases.
template <class T, class Services>
class owned_memory {
    static_assert(std::is_trivially_copyable_v<T>, "buffer<T>: T must be trivially copyable");

public:
    owned_memory() = default;
    explicit owned_memory(index size) : size_(size) {
        DFLASH_EXPECTS(size >= 0, "buffer: size ", size, " is negative");
        if (size > 0) {
            constexpr auto limit = static_cast<std::size_t>((std::numeric_limits<index>::max)());
            if (static_cast<std::size_t>(size) > limit / sizeof(T)) {
                raise<backend_error>("buffer: ", size, " elements of ", sizeof(T),
                                     " bytes do not fit the address space");
            }
            data_ = static_cast<T*>(Services::allocate(static_cast<std::size_t>(size) * sizeof(T)));
        }
    }
    owned_memory(owned_memory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    owned_memory& operator=(owned_memory&& other) noexcept {
        owned_memory taken(std::move(other));
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        return *this;
    }
    owned_memory(const owned_memory&) = delete;
    owned_memory& operator=(const owned_memory&) = delete;
    ~owned_memory() {
        if (data_ != nullptr) {
            Services::release(data_);
        }
    }

    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] index size() const noexcept { return size_; }

private:
    T* data_ = nullptr;
    index size_ = 0;
};

struct device_memory {
    static void* allocate(std::size_t bytes) {
        void* memory = runtime::allocate(bytes);
        runtime::clear(memory, bytes, {});
        runtime::wait({});
        return memory;
    }
    static void release(void* memory) noexcept { runtime::release(memory); }
};

struct pinned_memory {
    static void* allocate(std::size_t bytes) {
        void* memory = runtime::allocate_pinned(bytes);
        std::memset(memory, 0, bytes);
        return memory;
    }
    static void release(void* memory) noexcept { runtime::release_pinned(memory); }
};

}  // namespace detail

}  // namespace cuda

/// Device memory, zero-initialised, movable, not copyable. Errors: backend_error when the memory is not there.
template <class T>
class buffer<T, cuda::device_space> : public cuda::detail::owned_memory<T, cuda::detail::device_memory> {
public:
    using cuda::detail::owned_memory<T, cuda::detail::device_memory>::owned_memory;

    /// The first rows * cols elements as a matrix.
    [[nodiscard]] matrix_view<T, cuda::device_space> matrix(index rows, index cols) {
        DFLASH_EXPECTS(rows * cols <= this->size(), "buffer: (", rows, ", ", cols, ") needs more than ", this->size(),
                       " elements");
        return {this->data(), rows, cols};
    }
};

/// Pinned memory, zero-initialised, movable, not copyable. Errors: backend_error when the memory is not there.
template <class T>
class buffer<T, cuda::pinned_space> : public cuda::detail::owned_memory<T, cuda::detail::pinned_memory> {
public:
    using cuda::detail::owned_memory<T, cuda::detail::pinned_memory>::owned_memory;

    [[nodiscard]] T& operator[](index i) noexcept { return this->data()[i]; }
    [[nodiscard]] const T& operator[](index i) const noexcept { return this->data()[i]; }
};

/// Tokens of a device model lie where host and device see them.
template <>
struct token_space<cuda::device_space> {
    using type = cuda::pinned_space;
};

DFLASH_END_NAMESPACE
