// Files as bytes: a whole file mapped into memory (POSIX) or read into it (elsewhere), and small files as text.
//
// Only regular files are opened, so that a pipe or a device cannot stall or flood a load. A mapped file must not be
// shortened while it is in use: the system then ends the process, which no library can prevent.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <dflash/vocabulary.hpp>

#if defined(__unix__) || defined(__APPLE__)
#define DFLASH_IO_HAS_MMAP 1
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#define DFLASH_IO_HAS_MMAP 0
#endif

DFLASH_BEGIN_NAMESPACE

namespace io {

namespace detail {

inline std::string system_message(int code) {
    return std::generic_category().message(code);
}

/// Size of a regular file. Errors: io_error for anything else.
inline index regular_file_size(const std::filesystem::path& path) {
    std::error_code failure;
    const std::filesystem::file_status status = std::filesystem::status(path, failure);
    if (status.type() == std::filesystem::file_type::not_found) {
        raise<io_error>(path.string(), ": no such file");
    }
    if (status.type() != std::filesystem::file_type::regular) {
        raise<io_error>(path.string(), ": ", failure ? failure.message() : std::string("not a regular file"));
    }
    const std::uintmax_t size = std::filesystem::file_size(path, failure);
    if (failure) {
        raise<io_error>(path.string(), ": ", failure.message());
    }
    if (size > static_cast<std::uintmax_t>((std::numeric_limits<index>::max)())) {
        raise<io_error>(path.string(), ": ", size, " bytes do not fit the address space");
    }
    return static_cast<index>(size);
}

struct file_closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

using file_handle = std::unique_ptr<std::FILE, file_closer>;

inline file_handle open_file(const std::filesystem::path& path, const char* mode) {
    file_handle file(std::fopen(path.string().c_str(), mode));
    if (file == nullptr) {
        raise<io_error>(path.string(), ": cannot open: ", system_message(errno));
    }
    return file;
}

/// Reads exactly `size` bytes. Errors: io_error when the file is shorter than it was.
inline void read_exactly(const std::filesystem::path& path, void* into, index size) {
    const file_handle file = open_file(path, "rb");
    const std::size_t got = std::fread(into, 1, static_cast<std::size_t>(size), file.get());
    if (got != static_cast<std::size_t>(size)) {
        raise<io_error>(path.string(), ": read ", got, " bytes of ", size);
    }
}

}  // namespace detail

/// True when something with that name is there, whatever it is.
[[nodiscard]] inline bool file_exists(const std::filesystem::path& path) {
    std::error_code failure;
    return std::filesystem::exists(std::filesystem::symlink_status(path, failure));
}

/// A small file as text. Errors: io_error when it is missing, unreadable, or larger than `limit` bytes.
[[nodiscard]] inline std::string read_text(const std::filesystem::path& path, index limit) {
    const index size = detail::regular_file_size(path);
    if (size > limit) {
        raise<io_error>(path.string(), ": ", size, " bytes, the limit is ", limit);
    }
    std::string text(static_cast<std::size_t>(size), '\0');
    detail::read_exactly(path, text.data(), size);
    return text;
}

/// The bytes of a file, read-only, for as long as the object lives. Move-only.
class mapped_file {
public:
    /// Errors: io_error when the file cannot be opened, is no regular file, or cannot be mapped.
    explicit mapped_file(const std::filesystem::path& path) {
#if DFLASH_IO_HAS_MMAP
        static_cast<void>(detail::regular_file_size(path));  // refuses what open() would block on
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) {
            raise<io_error>(path.string(), ": cannot open: ", detail::system_message(errno));
        }
        struct ::stat status{};
        const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
        size_ = regular ? static_cast<index>(status.st_size) : 0;
        void* mapping = nullptr;
        if (size_ > 0) {
            mapping = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_PRIVATE, file, 0);
        }
        const int code = errno;
        ::close(file);
        if (!regular || mapping == MAP_FAILED) {
            size_ = 0;
            raise<io_error>(path.string(), ": cannot map: ", detail::system_message(code));
        }
        data_ = static_cast<const std::byte*>(mapping);
#else
        storage_.resize(static_cast<std::size_t>(detail::regular_file_size(path)));
        size_ = static_cast<index>(storage_.size());
        detail::read_exactly(path, storage_.data(), size_);
        data_ = storage_.data();
#endif
    }

    mapped_file(mapped_file&& other) noexcept
        : storage_(std::move(other.storage_)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    mapped_file& operator=(mapped_file&& other) noexcept {
        mapped_file taken(std::move(other));
        std::swap(storage_, taken.storage_);
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        return *this;
    }
    mapped_file(const mapped_file&) = delete;
    mapped_file& operator=(const mapped_file&) = delete;

    ~mapped_file() {
#if DFLASH_IO_HAS_MMAP
        if (data_ != nullptr) {
            // munmap takes a mutable pointer, though it writes nothing.
            ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
        }
#endif
    }

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }

    /// Lets whole pages of a part of the bytes leave this process's memory. Reading them again reads the file again.
    void release(std::span<const std::byte> part) const noexcept {
#if DFLASH_IO_HAS_MMAP
        const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
        const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
        if (first < last) {
            const std::size_t offset = first - reinterpret_cast<std::uintptr_t>(data_);
            // madvise takes a mutable pointer, though it changes no byte of the file.
            static_cast<void>(::madvise(const_cast<std::byte*>(data_ + offset), last - first, MADV_DONTNEED));
        }
#else
        static_cast<void>(part);
#endif
    }

    /// Whether the part lies within the bytes.
    [[nodiscard]] bool holds(std::span<const std::byte> part) const noexcept {
        const std::less_equal<const std::byte*> not_behind;
        return not_behind(data_, part.data()) && not_behind(part.data() + part.size(), data_ + size_);
    }

private:
    std::vector<std::byte> storage_;  // only where files are not mapped
    const std::byte* data_ = nullptr;
    index size_ = 0;
};

}  // namespace io

DFLASH_END_NAMESPACE
