// A JSON value that knows where it stands, so that every complaint names the file and the key.
//
// Damaged files are an io_error. What is well-formed but not supported is a config_error: nothing is ever ignored, so
// an unknown key is an error too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Reads and parses a JSON file. Raises io_error.
[[nodiscard]] inline nlohmann::json read_json(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        raise<io_error>(path, ": cannot be opened");
    }
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (file.bad()) {
        raise<io_error>(path, ": cannot be read");
    }
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& e) {
        raise<io_error>(path, ": not valid JSON: ", e.what());
    }
}

/// The id that a JSON number gives. Raises io_error unless it is an integer from 0 to 2^31 - 1.
[[nodiscard]] inline token_id id_from_json(const nlohmann::json& value, std::string_view where,
                                           std::string_view entry) {
    constexpr auto largest = static_cast<std::uint64_t>((std::numeric_limits<token_id>::max)());
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest) {
        raise<io_error>(where, ": the id of \"", entry, "\" is ", value.dump(), ", needs an integer from 0 to ",
                        largest);
    }
    return static_cast<token_id>(value.get<std::uint64_t>());
}

/// A value inside a document that outlives it.
class json_node {
public:
    json_node(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

    [[nodiscard]] const nlohmann::json& value() const noexcept { return *value_; }
    [[nodiscard]] const std::string& where() const noexcept { return where_; }
    [[nodiscard]] bool is_null() const noexcept { return value_->is_null(); }

    /// The member of that name; null if the object has none.
    [[nodiscard]] json_node operator[](const char* key) const {
        static const nlohmann::json none;
        const auto found = object().find(key);
        return {found == value_->end() ? none : *found, where_ + "." + key};
    }

    [[nodiscard]] const nlohmann::json& object() const { return typed(value_->is_object(), "an object"); }
    [[nodiscard]] const nlohmann::json& array() const { return typed(value_->is_array(), "an array"); }
    [[nodiscard]] const std::string& text() const {
        return typed(value_->is_string(), "a string").get_ref<const std::string&>();
    }
    [[nodiscard]] bool flag() const { return typed(value_->is_boolean(), "true or false").get<bool>(); }
    /// A flag that may be absent.
    [[nodiscard]] bool flag_or(bool absent) const { return is_null() ? absent : flag(); }

    /// The elements of an array.
    [[nodiscard]] std::vector<json_node> items() const {
        std::vector<json_node> out;
        for (const nlohmann::json& element : array()) {
            out.emplace_back(element, where_ + "[" + std::to_string(out.size()) + "]");
        }
        return out;
    }

    /// Refuses an object that has any other key.
    void expect_only(std::initializer_list<std::string_view> keys) const {
        for (const auto& member : object().items()) {
            if (std::find(keys.begin(), keys.end(), member.key()) == keys.end()) {
                raise<config_error>(where_, ": the key \"", member.key(), "\" is not supported");
            }
        }
    }

    /// Refuses a feature that is switched on: passes null, false, zero and the empty string.
    void expect_off() const {
        const bool off = is_null() || *value_ == false || *value_ == "" || *value_ == 0;
        if (!off) {
            refuse();
        }
    }

    /// Refuses the value as a whole.
    [[noreturn]] void refuse() const { raise<config_error>(where_, ": ", value_->dump(), " is not supported"); }

private:
    [[nodiscard]] const nlohmann::json& typed(bool right, const char* needed) const {
        if (!right) {
            raise<io_error>(where_, ": got ", value_->is_null() ? "nothing" : value_->type_name(), ", needs ", needed);
        }
        return *value_;
    }

    const nlohmann::json* value_;
    std::string where_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
