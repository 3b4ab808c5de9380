// Strict JSON: one value per text, and accessors that say which file and key they are about.
//
// Refuses what readers disagree on: duplicate keys, invalid UTF-8, NUL bytes, comments, anything after the value, and
// nesting deeper than 64. Numbers keep their kind, so that 4.0 or 1e3 is no size. The JSON library parses; its
// exceptions never leave this file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <dflash/io/file.hpp>
#include <dflash/io/text.hpp>
#include <nlohmann/json.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// Deepest nesting of lists and objects that is read.
inline constexpr index json_depth_limit = 64;

/// Largest JSON text that is read; also the largest header of a safetensors file.
inline constexpr index json_size_limit = 100'000'000;

struct json_member;

/// A parsed value. Members of an object are sorted by key.
class json_value {
public:
    using list = std::vector<json_value>;
    using object = std::vector<json_member>;

    json_value() = default;
    template <class T>
    explicit json_value(std::in_place_type_t<T>, T value) : value_(std::in_place_type<T>, std::move(value)) {}

    [[nodiscard]] bool is_null() const noexcept { return std::holds_alternative<std::nullptr_t>(value_); }
    [[nodiscard]] const bool* as_bool() const noexcept { return std::get_if<bool>(&value_); }
    [[nodiscard]] const std::string* as_string() const noexcept { return std::get_if<std::string>(&value_); }
    [[nodiscard]] const list* as_list() const noexcept { return std::get_if<list>(&value_); }
    [[nodiscard]] const object* as_object() const noexcept { return std::get_if<object>(&value_); }

    /// An integer written as one, if it fits.
    [[nodiscard]] std::optional<std::int64_t> as_integer() const noexcept {
        if (const auto* value = std::get_if<std::int64_t>(&value_)) {
            return *value;
        }
        if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
            if (*value <= static_cast<std::uint64_t>((std::numeric_limits<std::int64_t>::max)())) {
                return static_cast<std::int64_t>(*value);
            }
        }
        return std::nullopt;
    }

    /// A number of either kind.
    [[nodiscard]] std::optional<double> as_number() const noexcept {
        if (const auto* value = std::get_if<double>(&value_)) {
            return *value;
        }
        if (const auto* value = std::get_if<std::int64_t>(&value_)) {
            return static_cast<double>(*value);
        }
        if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
            return static_cast<double>(*value);
        }
        return std::nullopt;
    }

    /// The member with that key; null when there is none or this is no object.
    [[nodiscard]] const json_value* find(std::string_view key) const noexcept;

    /// The value in words, for messages.
    [[nodiscard]] std::string text() const;

private:
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, list, object> value_;
};

struct json_member {
    std::string key;
    json_value value;
};

inline const json_value* json_value::find(std::string_view key) const noexcept {
    const object* members = as_object();
    if (members == nullptr) {
        return nullptr;
    }
    const auto at = std::lower_bound(members->begin(), members->end(), key,
                                     [](const json_member& member, std::string_view k) { return member.key < k; });
    return at != members->end() && at->key == key ? &at->value : nullptr;
}

inline std::string json_value::text() const {
    if (const bool* value = as_bool()) {
        return *value ? "true" : "false";
    }
    if (const auto* value = std::get_if<std::int64_t>(&value_)) {
        return std::to_string(*value);
    }
    if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
        return std::to_string(*value);
    }
    if (const auto* value = std::get_if<double>(&value_)) {
        // 4.0 is kept apart from 4: it was not written as an integer.
        const std::string digits = number_text(*value);
        return digits.find_first_not_of("-0123456789") == std::string::npos ? digits + ".0" : digits;
    }
    if (const std::string* value = as_string()) {
        return in_quotes(*value);
    }
    if (const list* value = as_list()) {
        return "a list of " + std::to_string(value->size());
    }
    return as_object() != nullptr ? "an object" : "null";
}

namespace detail {

/// Builds a json_value from parse events; stops at the first fault and keeps its description.
class json_builder {
public:
    using library = nlohmann::json;

    bool null() { return add(); }
    bool boolean(bool value) { return add(std::in_place_type<bool>, value); }
    bool number_integer(library::number_integer_t value) { return add(std::in_place_type<std::int64_t>, value); }
    bool number_unsigned(library::number_unsigned_t value) { return add(std::in_place_type<std::uint64_t>, value); }
    bool number_float(library::number_float_t value, const std::string&) {
        return add(std::in_place_type<double>, value);
    }
    bool string(std::string& value) { return add(std::in_place_type<std::string>, std::move(value)); }
    bool binary(library::binary_t&) { return fail("binary values are not JSON"); }
    bool start_object(std::size_t) { return open(); }
    bool start_array(std::size_t) { return open(); }
    bool key(std::string& name) {
        stack_.back().keys.push_back(std::move(name));
        return true;
    }
    bool end_array() {
        json_value::list items = std::move(stack_.back().items);
        stack_.pop_back();
        return add(std::in_place_type<json_value::list>, std::move(items));
    }
    bool end_object() {
        frame& top = stack_.back();
        json_value::object members;
        members.reserve(top.items.size());
        for (std::size_t i = 0; i < top.items.size(); ++i) {
            members.push_back(json_member{std::move(top.keys[i]), std::move(top.items[i])});
        }
        stack_.pop_back();
        std::sort(members.begin(), members.end(),
                  [](const json_member& a, const json_member& b) { return a.key < b.key; });
        const auto twice = std::adjacent_find(
            members.begin(), members.end(), [](const json_member& a, const json_member& b) { return a.key == b.key; });
        if (twice != members.end()) {
            return fail("the key " + in_quotes(twice->key) + " occurs twice in one object");
        }
        return add(std::in_place_type<json_value::object>, std::move(members));
    }
    // The library's own sentence quotes raw bytes of the file, so only the place is kept.
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& fault) {
        return fail((fault.id == 406 ? "a number out of range at byte " : "invalid JSON at byte ") +
                    std::to_string(position));
    }

    [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
    [[nodiscard]] json_value take() { return std::move(stack_.front().items.front()); }

private:
    struct frame {
        std::vector<std::string> keys;  // objects only
        json_value::list items;
    };

    bool open() {
        if (static_cast<index>(stack_.size()) > json_depth_limit) {
            return fail("nested deeper than " + std::to_string(json_depth_limit));
        }
        stack_.emplace_back();
        return true;
    }
    // Built in place: g++ warns of uninitialised members when a value of known kind is moved.
    template <class... Parts>
    bool add(Parts&&... parts) {
        stack_.back().items.emplace_back(std::forward<Parts>(parts)...);
        return true;
    }
    bool fail(std::string fault) {
        fault_ = std::move(fault);
        return false;
    }

    std::vector<frame> stack_ = std::vector<frame>(1);  // the first holds the root
    std::string fault_;
};

}  // namespace detail

/// Parses one JSON text; `file` is the name used in messages. Errors: io_error.
[[nodiscard]] inline json_value parse_json(std::string_view text, const std::string& file) {
    // The parser takes a NUL byte for the end of the text and would not see what follows it.
    if (text.find('\0') != std::string_view::npos) {
        raise<io_error>(file, ": invalid JSON: a NUL byte at byte ", text.find('\0'));
    }
    detail::json_builder builder;
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
        raise<io_error>(file, ": ", builder.fault());
    }
    return builder.take();
}

/// Reads a JSON file. Errors: io_error.
[[nodiscard]] inline json_value read_json(const std::filesystem::path& file) {
    return parse_json(read_text(file, json_size_limit), file.string());
}

/// An object of a configuration, read key by key. A key whose value is null counts as absent, which is how the
/// configurations are written. Every error is a config_error "file: path.key: got X, needs Y".
/// The value read from must outlive this.
class json_fields {
public:
    /// Errors: config_error when the value is not an object.
    json_fields(std::string file, const json_value& object, std::string path = {})
        : file_(std::move(file)), path_(std::move(path)), object_(&object) {
        if (object.as_object() == nullptr) {
            raise<config_error>(file_, ": ", path_.empty() ? std::string() : path_ + ": ", "got ", object.text(),
                                ", needs an object");
        }
    }

    /// "file: path.key", the start of every message.
    [[nodiscard]] std::string name(std::string_view key) const {
        return file_ + ": " + (path_.empty() ? std::string() : path_ + ".") + std::string(key);
    }

    [[nodiscard]] const std::string& file() const noexcept { return file_; }

    /// The value of a key, null when it is absent or null.
    [[nodiscard]] const json_value* find(std::string_view key) const noexcept {
        const json_value* value = object_->find(key);
        return value == nullptr || value->is_null() ? nullptr : value;
    }
    [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key) != nullptr; }

    [[noreturn]] void refuse(std::string_view key, const std::string& got, std::string_view needs) const {
        raise<config_error>(name(key), ": got ", got, ", needs ", needs);
    }
    [[noreturn]] void missing(std::string_view key, std::string_view needs) const {
        raise<config_error>(name(key), ": missing, needs ", needs);
    }

    /// An integer in least .. most, written as one.
    [[nodiscard]] std::optional<index> optional_index(std::string_view key, index least, index most) const {
        const json_value* value = find(key);
        return value == nullptr ? std::nullopt : std::optional<index>(to_index(key, *value, least, most));
    }
    [[nodiscard]] index require_index(std::string_view key, index least, index most) const {
        const std::optional<index> value = optional_index(key, least, most);
        if (!value) {
            missing(key, range_text(least, most));
        }
        return *value;
    }

    /// A finite number.
    [[nodiscard]] std::optional<double> optional_number(std::string_view key) const {
        const json_value* value = find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        const std::optional<double> number = value->as_number();
        if (!number || !std::isfinite(*number)) {
            refuse(key, value->text(), "a number");
        }
        return number;
    }
    [[nodiscard]] double require_number(std::string_view key) const {
        const std::optional<double> value = optional_number(key);
        if (!value) {
            missing(key, "a number");
        }
        return *value;
    }

    [[nodiscard]] std::optional<bool> optional_bool(std::string_view key) const {
        const json_value* value = find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        if (value->as_bool() == nullptr) {
            refuse(key, value->text(), "true or false");
        }
        return *value->as_bool();
    }

    /// The text, or null when absent.
    [[nodiscard]] const std::string* optional_string(std::string_view key) const {
        const json_value* value = find(key);
        if (value != nullptr && value->as_string() == nullptr) {
            refuse(key, value->text(), "a string");
        }
        return value == nullptr ? nullptr : value->as_string();
    }

    [[nodiscard]] std::optional<json_fields> optional_object(std::string_view key) const {
        const json_value* value = find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        return json_fields(file_, *value, (path_.empty() ? std::string() : path_ + ".") + std::string(key));
    }

    /// A list of integers in least .. most.
    [[nodiscard]] std::optional<std::vector<index>> optional_index_list(std::string_view key, index least,
                                                                        index most) const {
        const json_value* value = find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        std::vector<index> out;
        for (const json_value& item : require_list(key, *value)) {
            out.push_back(to_index(element(key, out.size()), item, least, most));
        }
        return out;
    }

    /// A list of strings.
    [[nodiscard]] std::optional<std::vector<std::string>> optional_string_list(std::string_view key) const {
        const json_value* value = find(key);
        if (value == nullptr) {
            return std::nullopt;
        }
        std::vector<std::string> out;
        for (const json_value& item : require_list(key, *value)) {
            if (item.as_string() == nullptr) {
                refuse(element(key, out.size()), item.text(), "a string");
            }
            out.push_back(*item.as_string());
        }
        return out;
    }

    /// Refuses every key that is not among those given, also one whose value is null.
    void allow_only(std::initializer_list<std::string_view> known, std::string_view why) const {
        for (const json_member& member : *object_->as_object()) {
            if (std::find(known.begin(), known.end(), member.key) == known.end()) {
                raise<config_error>(file_, ": ", path_.empty() ? std::string() : path_ + ": ", "the key ",
                                    in_quotes(member.key), " is not supported; ", why);
            }
        }
    }

private:
    static std::string range_text(index least, index most) {
        return "an integer in " + std::to_string(least) + " .. " + std::to_string(most);
    }
    static std::string element(std::string_view key, std::size_t i) {
        return std::string(key) + "[" + std::to_string(i) + "]";
    }
    [[nodiscard]] index to_index(std::string_view key, const json_value& value, index least, index most) const {
        const std::optional<std::int64_t> number = value.as_integer();
        if (!number || *number < least || *number > most) {
            refuse(key, value.text(), range_text(least, most));
        }
        return static_cast<index>(*number);
    }
    [[nodiscard]] const json_value::list& require_list(std::string_view key, const json_value& value) const {
        if (value.as_list() == nullptr) {
            refuse(key, value.text(), "a list");
        }
        return *value.as_list();
    }

    std::string file_;
    std::string path_;
    const json_value* object_;
};

}  // namespace io

DFLASH_END_NAMESPACE
