// Errors: what is raised, when, and how a build without exceptions hears of it.
//
// The library never prints and never aborts. Bad configuration is a config_error, the outside world an io_error, a
// backend that cannot do its work a backend_error, logits that cannot be used a numeric_error, and a broken promise a
// contract_error: of what is plugged into a decoder always, of callers of single operations in checked builds. Without
// exceptions a replaceable handler is called, which must not return.
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

/// A promise that was broken: by a policy, a drafter, a sampler or a rule that a decoder was given (in every build), or
/// by the caller of an operation whose precondition does not hold (DFLASH_EXPECTS: in checked builds).
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

/// A logit row that a token is due from holds NaN or infinity, or the sampler has no token left. The message names the
/// position.
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

// Messages are built on the way out, so these are kept out of line: what is inlined into every check costs every user
// time to compile.
DFLASH_COLD inline void append_text(std::string& out, std::string_view part) {
    out += part;
}
DFLASH_COLD inline void append_signed(std::string& out, long long part) {
    out += std::to_string(part);
}
DFLASH_COLD inline void append_unsigned(std::string& out, unsigned long long part) {
    out += std::to_string(part);
}
DFLASH_COLD inline void append_real(std::string& out, double part) {
    out += std::to_string(part);
}

template <class Part>
void append(std::string& out, const Part& part) {
    if constexpr (std::is_same_v<Part, bool>) {
        append_text(out, part ? "true" : "false");
    } else if constexpr (std::is_floating_point_v<Part>) {
        append_real(out, static_cast<double>(part));
    } else if constexpr (std::is_integral_v<Part> && std::is_signed_v<Part>) {
        append_signed(out, part);
    } else if constexpr (std::is_integral_v<Part>) {
        append_unsigned(out, part);
    } else {
        append_text(out, part);
    }
}

/// Joins strings and numbers into one message, without streams.
template <class... Parts>
DFLASH_COLD std::string text(const Parts&... parts) {
    std::string out;
    (append(out, parts), ...);
    return out;
}

}  // namespace detail

/// Replaces the handler for builds without exceptions and returns the old one (null: std::terminate).
inline failure_handler set_failure_handler(failure_handler handler) noexcept {
    return std::exchange(detail::current_failure_handler(), handler);
}

/// Raises an Error whose message is the parts joined; in builds without exceptions calls the handler instead.
template <class Error, class... Parts>
[[noreturn]] DFLASH_COLD void raise(const Parts&... parts) {
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
