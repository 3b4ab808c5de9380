// Errors: what is raised, when, and how a build without exceptions hears of it.
//
// The library never prints and never aborts. Bad configuration is a config_error, the outside world an io_error, a
// backend that cannot do its work a backend_error, non-finite logits a numeric_error, and (in checked builds) a broken
// precondition a contract_error. Without exceptions a replaceable handler is called, which must not return.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE

/// Base of everything the library raises.
class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A configuration that cannot work. The message names the field and both numbers.
class config_error : public error {
public:
    using error::error;
};

/// A precondition that the caller broke (checked builds only).
class contract_error : public error {
public:
    using error::error;
};

/// A file that is missing, damaged, or not what it says it is. The message names the file and the key.
class io_error : public error {
public:
    using error::error;
};

/// A backend that cannot do what was asked (a device, a library, an instruction set).
class backend_error : public error {
public:
    using error::error;
};

/// A logit row that is to be committed holds NaN or infinity. The message names the position.
class numeric_error : public error {
public:
    using error::error;
};

/// Called instead of `throw` in builds without exceptions. Must not return; if it does, std::terminate follows.
using failure_handler = void (*)(const error& what);

namespace detail {

inline failure_handler& current_failure_handler() noexcept {
    static failure_handler handler = nullptr;
    return handler;
}

inline std::string to_text(std::string_view text) {
    return std::string(text);
}
inline std::string to_text(const char* text) {
    return std::string(text);
}
inline std::string to_text(const std::string& text) {
    return text;
}
inline std::string to_text(bool value) {
    return value ? "true" : "false";
}
template <class Number>
    requires std::is_arithmetic_v<Number>
std::string to_text(Number value) {
    return std::to_string(value);
}

/// Joins strings and numbers into one message, without streams.
template <class... Parts>
std::string text(const Parts&... parts) {
    std::string out;
    ((out += to_text(parts)), ...);
    return out;
}

}  // namespace detail

/// Replaces the handler for builds without exceptions and returns the old one (null: std::terminate).
inline failure_handler set_failure_handler(failure_handler handler) noexcept {
    return std::exchange(detail::current_failure_handler(), handler);
}

/// Raises an Error whose message is the parts joined; in builds without exceptions calls the handler instead.
template <class Error, class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
    static_assert(std::is_base_of_v<error, Error>, "raise<E>: E must be one of the dflash errors");
#if DFLASH_HAS_EXCEPTIONS
    throw Error(detail::text(parts...));
#else
    const Error failure(detail::text(parts...));
    if (detail::current_failure_handler() != nullptr) {
        detail::current_failure_handler()(failure);
    }
    std::terminate();
#endif
}

DFLASH_END_NAMESPACE

// A precondition with a sentence. Costs nothing in unchecked builds.
#if DFLASH_CHECKED
#define DFLASH_EXPECTS(condition, ...)                              \
    do {                                                            \
        if (!(condition)) {                                         \
            ::dflash::raise<::dflash::contract_error>(__VA_ARGS__); \
        }                                                           \
    } while (false)
#else
#define DFLASH_EXPECTS(condition, ...) static_cast<void>(0)
#endif
