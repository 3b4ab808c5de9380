// A file written as a whole, or an error that says why not.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <dflash/contracts.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Errors: io_error.
inline void write_file(const std::string& path, std::string_view text) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
    if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
        std::fflush(file.get()) != 0) {
        raise<io_error>(path, ": cannot write: ", std::strerror(errno));
    }
}

}  // namespace examples
DFLASH_END_NAMESPACE
