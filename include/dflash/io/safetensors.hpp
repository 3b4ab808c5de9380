// The safetensors format: reading with every claim of the header checked, and writing F32 tensors.
//
// The format: 8 bytes header length (little endian), the header (JSON, starting with '{', padded with spaces), the
// data. Every tensor has dtype, shape and data_offsets, whose length must be that of the shape; together the tensors
// cover the data without holes or overlaps. Nothing is allocated from a number in the file, and data is never assumed
// to be aligned: views are bytes. Source: the format description of the safetensors project.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/concepts/ops.hpp>
#include <dflash/io/file.hpp>
#include <dflash/io/json.hpp>
#include <dflash/io/text.hpp>
#include <dflash/numerics/convert.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// A tensor of a file. The bytes belong to the file; they have any alignment.
struct stored_tensor {
    std::string name;
    std::string type;          // as the file names it: "F32", "BF16", "I64", ...
    std::vector<index> shape;  // empty: a scalar
    std::span<const std::byte> bytes;

    /// The product of the shape.
    [[nodiscard]] index elements() const noexcept {
        index product = 1;
        for (const index extent : shape) {
            product *= extent;  // was checked when the file was read
        }
        return product;
    }
};

namespace detail {

/// Bits per element of the types the format knows; 0: unknown.
inline index bits_of_type(std::string_view type) noexcept {
    struct entry {
        std::string_view name;
        index bits;
    };
    constexpr entry known[] = {
        {"F32", 32},    {"BF16", 16},   {"F16", 16},    {"F64", 64},    {"I64", 64},    {"I32", 32}, {"I16", 16},
        {"I8", 8},      {"U64", 64},    {"U32", 32},    {"U16", 16},    {"U8", 8},      {"BOOL", 8}, {"C64", 64},
        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    };
    for (const entry& e : known) {
        if (e.name == type) {
            return e.bits;
        }
    }
    return 0;
}

inline std::optional<dtype> weight_type(std::string_view type) noexcept {
    for (const dtype known : {dtype::f32, dtype::bf16, dtype::f16}) {
        if (name_of(known) == type) {
            return known;
        }
    }
    return std::nullopt;
}

/// a * b for a, b >= 0; nothing when it does not fit.
inline std::optional<index> checked_product(index a, index b) noexcept {
    if (b != 0 && a > (std::numeric_limits<index>::max)() / b) {
        return std::nullopt;
    }
    return a * b;
}

/// A value of any alignment.
template <class T>
[[nodiscard]] T load_unaligned(const std::byte* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

}  // namespace detail

/// One file, mapped into memory, with its header checked.
class safetensors_file {
public:
    /// Errors: io_error that names the file, the tensor, and both numbers.
    explicit safetensors_file(const std::filesystem::path& path) : path_(path.string()), file_(path) {
        const index size = size_of(file_.bytes());
        if (size < 8) {
            raise<io_error>(path_, ": ", size, " bytes, a safetensors file has at least 8");
        }
        const auto header = detail::load_unaligned<std::uint64_t>(file_.bytes().data());
        // Compared before anything is added to it: the number is the file's.
        if (header > static_cast<std::uint64_t>(size - 8)) {
            raise<io_error>(path_, ": the header is said to have ", header, " bytes, the file has ", size - 8,
                            " after the length");
        }
        if (header > static_cast<std::uint64_t>(json_size_limit)) {
            raise<io_error>(path_, ": a header of ", header, " bytes, the limit is ", json_size_limit);
        }
        const auto header_size = static_cast<std::size_t>(header);
        const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data() + 8), header_size);
        if (text.empty() || text.front() != '{') {
            raise<io_error>(path_, ": the header does not start with '{'");
        }
        read_header(parse_json(text, path_), file_.bytes().subspan(8 + header_size));
    }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// Lets bytes leave memory when they are this file's: true then. They are read from the file again when needed.
    bool release(std::span<const std::byte> bytes) const noexcept {
        const bool own = file_.holds(bytes);
        if (own) {
            file_.release(bytes);
        }
        return own;
    }

    /// All tensors, sorted by name. Stay where they are while the file lives, also when it is moved.
    [[nodiscard]] std::span<const stored_tensor> tensors() const noexcept { return tensors_; }

    /// The entries of __metadata__, sorted by key.
    [[nodiscard]] std::span<const std::pair<std::string, std::string>> metadata() const noexcept { return metadata_; }

    /// Null when there is no tensor of that name.
    [[nodiscard]] const stored_tensor* find(std::string_view name) const noexcept {
        const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                         [](const stored_tensor& t, std::string_view n) { return t.name < n; });
        return at != tensors_.end() && at->name == name ? &*at : nullptr;
    }

    /// Errors: io_error when there is no tensor of that name.
    [[nodiscard]] const stored_tensor& at(std::string_view name) const {
        const stored_tensor* tensor = find(name);
        if (tensor == nullptr) {
            raise<io_error>(path_, ": no tensor ", in_quotes(name));
        }
        return *tensor;
    }

private:
    void read_header(const json_value& header, std::span<const std::byte> data) {
        struct range {
            index begin;
            index end;
            std::size_t tensor;
        };
        std::vector<range> ranges;
        for (const json_member& member : *header.as_object()) {
            if (member.key == "__metadata__") {
                read_metadata(member.value);
                continue;
            }
            const auto [begin, end] = read_tensor(member.key, member.value, data);
            ranges.push_back({begin, end, tensors_.size() - 1});
        }
        std::sort(ranges.begin(), ranges.end(), [](const range& a, const range& b) {
            return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
        index covered = 0;
        for (const range& r : ranges) {
            if (r.begin != covered) {
                raise<io_error>(path_, ": tensor ", in_quotes(tensors_[r.tensor].name), " starts at byte ", r.begin,
                                " of the data, the one before ends at ", covered,
                                r.begin < covered ? " (they overlap)" : " (a hole)");
            }
            covered = r.end;
        }
        if (covered != size_of(data)) {
            raise<io_error>(path_, ": the tensors end at byte ", covered, " of the data, which has ", data.size());
        }
    }

    void read_metadata(const json_value& value) {
        if (value.as_object() == nullptr) {
            raise<io_error>(path_, ": __metadata__: got ", value.text(), ", needs an object of strings");
        }
        for (const json_member& member : *value.as_object()) {
            if (member.value.as_string() == nullptr) {
                raise<io_error>(path_, ": __metadata__ ", in_quotes(member.key), ": got ", member.value.text(),
                                ", needs a string");
            }
            metadata_.emplace_back(member.key, *member.value.as_string());
        }
    }

    std::pair<index, index> read_tensor(const std::string& name, const json_value& value,
                                        std::span<const std::byte> data) {
        const auto refuse = [&](const auto&... parts) {
            raise<io_error>(path_, ": tensor ", in_quotes(name), ": ", parts...);
        };
        const json_value::object* fields = value.as_object();
        const json_value* type = value.find("dtype");
        const json_value* shape = value.find("shape");
        const json_value* offsets = value.find("data_offsets");
        if (fields == nullptr || fields->size() != 3 || type == nullptr || shape == nullptr || offsets == nullptr) {
            refuse("needs exactly dtype, shape and data_offsets");
        }
        if (type->as_string() == nullptr) {
            refuse("dtype: got ", type->text(), ", needs a string");
        }
        const index bits = detail::bits_of_type(*type->as_string());
        if (bits == 0) {
            refuse("unknown dtype ", type->text());
        }
        if (shape->as_list() == nullptr) {
            refuse("shape: got ", shape->text(), ", needs a list");
        }
        stored_tensor tensor;
        tensor.name = name;
        tensor.type = *type->as_string();
        std::optional<index> size = bits;
        for (const json_value& extent : *shape->as_list()) {
            const std::optional<index> number = size_from(extent);
            if (!number) {
                refuse("shape: got ", extent.text(), ", needs an integer of at least 0");
            }
            tensor.shape.push_back(*number);
            size = size ? detail::checked_product(*size, *number) : size;
        }
        if (!size) {
            refuse("shape ", list_text(tensor.shape), " has more elements than memory can have");
        }
        if (*size % 8 != 0) {
            refuse("shape ", list_text(tensor.shape), " of ", tensor.type, " does not fill whole bytes");
        }
        const json_value::list* pair = offsets->as_list();
        if (pair == nullptr || pair->size() != 2) {
            refuse("data_offsets: got ", offsets->text(), ", needs a list of 2");
        }
        const std::optional<index> begin = size_from(pair->front());
        const std::optional<index> end = size_from(pair->back());
        if (!begin || !end) {
            refuse("data_offsets: got ", (begin ? pair->back() : pair->front()).text(),
                   ", needs an integer of at least 0");
        }
        if (*end < *begin) {
            refuse("data_offsets: ends at ", *end, ", before it starts at ", *begin);
        }
        if (*end > size_of(data)) {
            refuse("data_offsets: ends at ", *end, ", the data has ", data.size(), " bytes");
        }
        if (*end - *begin != *size / 8) {
            refuse("shape ", list_text(tensor.shape), " of ", tensor.type, " has ", *size / 8,
                   " bytes, data_offsets give it ", *end - *begin);
        }
        tensor.bytes = data.subspan(static_cast<std::size_t>(*begin), static_cast<std::size_t>(*end - *begin));
        tensors_.push_back(std::move(tensor));
        return {*begin, *end};
    }

    static std::optional<index> size_from(const json_value& value) noexcept {
        const std::optional<std::int64_t> number = value.as_integer();
        return number && *number >= 0 ? std::optional<index>(static_cast<index>(*number)) : std::nullopt;
    }

    std::string path_;
    mapped_file file_;
    std::vector<stored_tensor> tensors_;
    std::vector<std::pair<std::string, std::string>> metadata_;
};

/// A tensor as a weight: a scalar or vector has one row. Errors: io_error for types other than F32, BF16 and F16 and
/// for more than two dimensions; `file` is the name used in messages.
[[nodiscard]] inline tensor_view as_weight(const std::string& file, const stored_tensor& tensor) {
    const std::optional<dtype> type = detail::weight_type(tensor.type);
    if (!type) {
        raise<io_error>(file, ": tensor ", in_quotes(tensor.name), ": dtype ", tensor.type,
                        " is not supported for weights, needs F32, BF16 or F16");
    }
    if (tensor.shape.size() > 2) {
        raise<io_error>(file, ": tensor ", in_quotes(tensor.name), ": shape ", list_text(tensor.shape), " has ",
                        tensor.shape.size(), " dimensions, weights have at most 2");
    }
    tensor_view view;
    view.type = *type;
    view.data = tensor.bytes.data();
    view.rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1;
    view.cols = tensor.shape.empty() ? 1 : tensor.shape.back();
    return view;
}

/// The values of a floating-point tensor (F64, F32, BF16, F16), widened exactly. Errors: io_error for other types.
[[nodiscard]] inline std::vector<double> read_f64(const stored_tensor& tensor) {
    const auto widened = [&](auto from, auto&& convert) {
        using stored = decltype(from);
        std::vector<double> out;
        out.reserve(tensor.bytes.size() / sizeof(stored));
        for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(stored)) {
            out.push_back(convert(detail::load_unaligned<stored>(tensor.bytes.data() + at)));
        }
        return out;
    };
    const auto from_float = [](auto x) { return static_cast<double>(numerics::to_float(x)); };
    if (tensor.type == "F64") {
        return widened(double{}, [](double x) { return x; });
    }
    if (tensor.type == "F32") {
        return widened(float{}, from_float);
    }
    if (tensor.type == "BF16") {
        return widened(bf16{}, from_float);
    }
    if (tensor.type == "F16") {
        return widened(f16{}, from_float);
    }
    raise<io_error>("tensor ", in_quotes(tensor.name), ": dtype ", tensor.type, ", needs F64, F32, BF16 or F16");
}

/// The values of an integer tensor (I8 .. I64, U8 .. U32, BOOL). Errors: io_error for other types.
[[nodiscard]] inline std::vector<std::int64_t> read_i64(const stored_tensor& tensor) {
    const auto widened = [&](auto from) {
        using stored = decltype(from);
        std::vector<std::int64_t> out;
        out.reserve(tensor.bytes.size() / sizeof(stored));
        for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(stored)) {
            out.push_back(static_cast<std::int64_t>(detail::load_unaligned<stored>(tensor.bytes.data() + at)));
        }
        return out;
    };
    if (tensor.type == "I64") {
        return widened(std::int64_t{});
    }
    if (tensor.type == "I32") {
        return widened(std::int32_t{});
    }
    if (tensor.type == "I16") {
        return widened(std::int16_t{});
    }
    if (tensor.type == "I8") {
        return widened(std::int8_t{});
    }
    if (tensor.type == "U32") {
        return widened(std::uint32_t{});
    }
    if (tensor.type == "U16") {
        return widened(std::uint16_t{});
    }
    if (tensor.type == "U8" || tensor.type == "BOOL") {
        return widened(std::uint8_t{});
    }
    raise<io_error>("tensor ", in_quotes(tensor.name), ": dtype ", tensor.type, ", needs an integer type");
}

/// Collects F32 tensors and writes them to one file, in the order in which they were added.
class safetensors_writer {
public:
    /// Copies the values. Errors: config_error when the name was added before, the name is reserved, or the shape does
    /// not have as many elements as there are values.
    void add(std::string name, std::vector<index> shape, std::span<const float> values) {
        std::optional<index> elements = 1;
        for (const index extent : shape) {
            elements = elements && extent >= 0 ? detail::checked_product(*elements, extent) : std::nullopt;
        }
        if (!elements || *elements != size_of(values)) {
            raise<config_error>("safetensors_writer: tensor ", in_quotes(name), ": shape ", list_text(shape),
                                " does not have the ", values.size(), " elements given");
        }
        if (name == "__metadata__") {
            raise<config_error>("safetensors_writer: the name \"__metadata__\" is reserved");
        }
        for (const entry& other : entries_) {
            if (other.name == name) {
                raise<config_error>("safetensors_writer: tensor ", in_quotes(name), " was added before");
            }
        }
        const index begin = entries_.empty() ? 0 : entries_.back().end;
        const index end = begin + size_of(values) * 4;
        entries_.push_back({std::move(name), std::move(shape), {values.begin(), values.end()}, begin, end});
    }

    /// Writes the file, replacing one that is there. Errors: io_error when not every byte could be written, and then
    /// the file is incomplete; io_error for names that are not UTF-8.
    void write(const std::filesystem::path& path) const {
        std::string header = "{";
        for (const entry& e : entries_) {
            header += header.size() == 1 ? "" : ",";
            append_json_string(header, e.name);
            header += ":{\"dtype\":\"F32\",\"shape\":[";
            for (std::size_t i = 0; i < e.shape.size(); ++i) {
                header += i == 0 ? "" : ",";
                header += std::to_string(e.shape[i]);
            }
            header += "],\"data_offsets\":[" + std::to_string(e.begin) + "," + std::to_string(e.end) + "]}";
        }
        header += "}";
        header.resize((header.size() + 7) / 8 * 8, ' ');
        static_cast<void>(parse_json(header, path.string()));  // what this file would refuse is not written
        const auto length = static_cast<std::uint64_t>(header.size());

        detail::file_handle file = detail::open_file(path, "wb");
        bool complete = put(file.get(), &length, sizeof(length)) && put(file.get(), header.data(), header.size());
        for (const entry& e : entries_) {
            complete = complete && put(file.get(), e.values.data(), e.values.size() * sizeof(float));
        }
        // Buffered bytes reach the disk, or fail to, when the file is closed.
        complete = std::fclose(file.release()) == 0 && complete;
        if (!complete) {
            raise<io_error>(path.string(), ": cannot write: ", detail::system_message(errno));
        }
    }

private:
    struct entry {
        std::string name;
        std::vector<index> shape;
        std::vector<float> values;
        index begin;
        index end;
    };

    static bool put(std::FILE* file, const void* bytes, std::size_t size) {
        return size == 0 || std::fwrite(bytes, 1, size, file) == size;
    }

    static void append_json_string(std::string& out, std::string_view text) {
        constexpr std::string_view digits = "0123456789abcdef";
        out += '"';
        for (const char c : text) {
            const auto code = static_cast<unsigned char>(c);
            if (c == '"' || c == '\\') {
                out += '\\';
                out += c;
            } else if (code < 0x20U) {
                out += "\\u00";
                out += digits[code >> 4];
                out += digits[code & 15U];
            } else {
                out += c;
            }
        }
        out += '"';
    }

    std::vector<entry> entries_;
};

}  // namespace io

DFLASH_END_NAMESPACE
