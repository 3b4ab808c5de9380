// A folder of tensors: model.safetensors, or shards listed by model.safetensors.index.json.
//
// A single file is used when it is there, index or not, as Hugging Face does. The index is untrusted: shard names are
// plain file names of this folder, checked before anything is opened, and what it says must be what the shards hold.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/io/json.hpp>
#include <dflash/io/safetensors.hpp>
#include <dflash/io/text.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// Refuses a shard name that is anything but the name of a safetensors file in the same folder. Nothing is opened.
/// Errors: io_error.
inline void check_shard_name(const std::string& index_file, std::string_view name) {
    constexpr std::string_view suffix = ".safetensors";
    const bool plain = name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix &&
                       name.front() != '.' && std::none_of(name.begin(), name.end(), [](char c) {
                           const auto code = static_cast<unsigned char>(c);
                           return c == '/' || c == '\\' || c == ':' || code < 0x20U || code == 0x7FU;
                       });
    if (!plain) {
        raise<io_error>(index_file, ": weight_map: shard ", in_quotes(name),
                        " is not the plain name of a .safetensors file in this folder");
    }
}

/// All tensors of a folder, whatever files they are in.
class checkpoint {
public:
    struct entry {
        const safetensors_file* file = nullptr;
        const stored_tensor* tensor = nullptr;
    };

    /// Errors: io_error when there are no tensors, a file is damaged, or index and shards disagree.
    explicit checkpoint(const std::filesystem::path& folder)
        : folder_(folder.string()), files_(std::make_shared<file_list>()) {
        const std::filesystem::path single = folder / "model.safetensors";
        const std::filesystem::path index_file = folder / "model.safetensors.index.json";
        if (file_exists(single)) {
            open(single);
        } else if (file_exists(index_file)) {
            open_shards(folder, index_file);
        } else {
            raise<io_error>(folder_, ": neither model.safetensors nor model.safetensors.index.json is there");
        }
    }

    [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

    /// Sorted by name.
    [[nodiscard]] std::span<const entry> tensors() const noexcept { return entries_; }

    /// Null when there is no tensor of that name.
    [[nodiscard]] const entry* find(std::string_view name) const noexcept {
        const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                         [](const entry& e, std::string_view n) { return e.tensor->name < n; });
        return at != entries_.end() && at->tensor->name == name ? &*at : nullptr;
    }

    /// Keeps the bytes of all tensors alive, also after this object is gone.
    [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return files_; }

    /// Lets the bytes of a tensor leave memory, which are read from its file again when needed. Does nothing once the
    /// bytes of all tensors are gone.
    [[nodiscard]] std::function<void(std::span<const std::byte>)> releaser() const {
        return [weak = std::weak_ptr<const file_list>(files_)](std::span<const std::byte> bytes) {
            if (const std::shared_ptr<const file_list> files = weak.lock()) {
                for (const auto& file : *files) {
                    if (file->release(bytes)) {
                        return;
                    }
                }
            }
        };
    }

private:
    using file_list = std::vector<std::unique_ptr<const safetensors_file>>;

    const safetensors_file& open(const std::filesystem::path& path) {
        files_->push_back(std::make_unique<const safetensors_file>(path));
        const safetensors_file& file = *files_->back();
        for (const stored_tensor& tensor : file.tensors()) {
            entries_.push_back({&file, &tensor});
        }
        std::sort(entries_.begin(), entries_.end(),
                  [](const entry& a, const entry& b) { return a.tensor->name < b.tensor->name; });
        return file;
    }

    void open_shards(const std::filesystem::path& folder, const std::filesystem::path& index_path) {
        const std::string index_file = index_path.string();
        const json_value root = read_json(index_path);
        const json_value* map = root.find("weight_map");
        if (map == nullptr || map->as_object() == nullptr) {
            raise<io_error>(index_file, ": weight_map: got ", map == nullptr ? std::string("nothing") : map->text(),
                            ", needs an object");
        }
        std::vector<std::string> shards;
        for (const json_member& member : *map->as_object()) {
            if (member.value.as_string() == nullptr) {
                raise<io_error>(index_file, ": weight_map: ", in_quotes(member.key), ": got ", member.value.text(),
                                ", needs a file name");
            }
            check_shard_name(index_file, *member.value.as_string());
            shards.push_back(*member.value.as_string());
        }
        std::sort(shards.begin(), shards.end());
        shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
        for (const std::string& shard : shards) {
            for (const stored_tensor& tensor : open(folder / shard).tensors()) {
                check_listed(index_file, *map, shard, tensor.name);
            }
        }
        for (const json_member& member : *map->as_object()) {
            if (find(member.key) == nullptr) {
                raise<io_error>(index_file, ": weight_map: tensor ", in_quotes(member.key), " is not in ",
                                in_quotes(*member.value.as_string()));
            }
        }
    }

    static void check_listed(const std::string& index_file, const json_value& map, const std::string& shard,
                             const std::string& tensor) {
        const json_value* listed = map.find(tensor);
        if (listed == nullptr) {
            raise<io_error>(index_file, ": weight_map does not list tensor ", in_quotes(tensor), " of ",
                            in_quotes(shard));
        }
        if (*listed->as_string() != shard) {
            raise<io_error>(index_file, ": weight_map puts tensor ", in_quotes(tensor), " in ", listed->text(),
                            ", but ", in_quotes(shard), " holds one too");
        }
    }

    std::string folder_;
    std::shared_ptr<file_list> files_;
    std::vector<entry> entries_;
};

}  // namespace io

DFLASH_END_NAMESPACE
