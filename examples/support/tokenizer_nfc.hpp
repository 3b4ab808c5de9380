// Unicode normalisation form C, by utf8proc.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <dflash/contracts.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// `text`, which is valid UTF-8, in normalisation form C. Raises backend_error when utf8proc fails.
[[nodiscard]] inline std::string to_nfc(std::string_view text) {
    const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    if (std::all_of(text.begin(), text.end(), ascii)) {
        return std::string(text);
    }
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (size < 0) {
        raise<backend_error>("utf8proc: ", utf8proc_errmsg(size));
    }
    return std::string(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

}  // namespace examples
DFLASH_END_NAMESPACE
