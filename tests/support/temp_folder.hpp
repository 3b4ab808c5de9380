// A folder of its own for a test, removed with everything in it when the object goes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace dflash_test {

class temp_folder {
public:
    temp_folder() {
        static std::atomic<unsigned> counter{0};
        const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
        for (int attempt = 0; attempt < 100; ++attempt) {
            path_ = std::filesystem::temp_directory_path() /
                    ("dflash_test_" + std::to_string(now) + "_" + std::to_string(counter++));
            if (std::filesystem::create_directory(path_)) {  // false: somebody else's, try the next name
                return;
            }
        }
        throw std::runtime_error("no temporary folder could be made");
    }
    ~temp_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    temp_folder(const temp_folder&) = delete;
    temp_folder& operator=(const temp_folder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    /// Writes a file below the folder (making folders on the way) and returns its path.
    std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
        const std::filesystem::path path = path_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::FILE* file = std::fopen(path.string().c_str(), "wb");
        if (file == nullptr) {
            throw std::runtime_error("cannot write " + path.string());
        }
        const bool complete = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
        if (std::fclose(file) != 0 || !complete) {
            throw std::runtime_error("cannot write " + path.string());
        }
        return path;
    }

private:
    std::filesystem::path path_;
};

}  // namespace dflash_test
