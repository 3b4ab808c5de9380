// What the tests of the tokenizer share: JSON from the data folders, and files that exist as long as a test needs them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "support/tokenizer.hpp"

namespace dflash_test {

inline const std::string golden = DFLASH_TEST_DATA;
inline const std::string models = DFLASH_MODELS;
inline const std::string bpe_file = models + "/prose-and-code/target/tokenizer.json";
inline const std::string word_file = models + "/worked-problems/target/tokenizer.json";

/// A file with the given content, removed at the end.
class temporary_file {
public:
    explicit temporary_file(std::string_view content) {
        std::random_device random;
        path_ = std::filesystem::temp_directory_path() /
                ("dflash_tokenizer_" + std::to_string(random()) + std::to_string(random()) + ".json");
        std::ofstream(path_, std::ios::binary) << content;
    }
    temporary_file(const temporary_file&) = delete;
    temporary_file& operator=(const temporary_file&) = delete;
    ~temporary_file() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

inline dflash::examples::tokenizer tokenizer_from(const nlohmann::json& document) {
    const temporary_file file(document.dump());
    return dflash::examples::tokenizer::load(file.path());
}

}  // namespace dflash_test
