// Prompts and texts: a prompt as the user gives it, and generated tokens as text, piece by piece.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/program.hpp"
#include "support/tokenizer.hpp"
#include "support/utf8_stream.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// The tokenizer of a target folder, if there is one. Errors: io_error, config_error for one that cannot be used.
[[nodiscard]] inline std::optional<tokenizer> find_tokenizer(const std::filesystem::path& target) {
    const std::filesystem::path file = target / "tokenizer.json";
    std::error_code ignored;
    return std::filesystem::exists(file, ignored) ? std::optional(tokenizer::load(file.string())) : std::nullopt;
}

/// "1,2,3" as ids. Errors: config_error that names the entry.
[[nodiscard]] inline std::vector<token_id> parse_ids(std::string_view option, std::string_view text) {
    constexpr index most = (std::numeric_limits<token_id>::max)();
    std::vector<token_id> ids;
    for (std::size_t first = 0; first <= text.size();) {
        const std::size_t comma = (std::min)(text.find(',', first), text.size());
        std::string_view entry = text.substr(first, comma - first);
        while (!entry.empty() && entry.front() == ' ') {
            entry.remove_prefix(1);
        }
        while (!entry.empty() && entry.back() == ' ') {
            entry.remove_suffix(1);
        }
        const std::optional<index> id = parse_whole(entry, 0, most);
        if (!id) {
            raise<config_error>(option, ": entry ", ids.size() + 1, " is \"", entry,
                                "\", needs token ids 0, 1, 2, ... with commas between them");
        }
        ids.push_back(static_cast<token_id>(*id));
        first = comma + 1;
    }
    return ids;
}

/// All bytes of a file; "-" is standard input. Errors: io_error.
[[nodiscard]] inline std::string read_text(const std::string& path) {
    const bool standard = path == "-";
    errno = 0;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(standard ? stdin : std::fopen(path.c_str(), "rb"),
                                                         [](std::FILE* f) { return f == stdin ? 0 : std::fclose(f); });
    std::string text;
    if (file != nullptr) {
        char chunk[4096];
        for (std::size_t got = 1; got > 0;) {
            got = std::fread(chunk, 1, sizeof(chunk), file.get());
            text.append(chunk, got);
        }
    }
    if (file == nullptr || std::ferror(file.get()) != 0) {
        raise<io_error>(standard ? "standard input" : path, ": cannot read: ", std::strerror(errno));
    }
    return text;
}

/// The prompt as ids. Says so on standard error when the tokenizer cannot express it exactly.
[[nodiscard]] inline std::vector<token_id> encode_prompt(std::string_view program, const tokenizer& words,
                                                         const std::string& text) {
    if (const std::string read = words.decode(words.encode(text)); read != text) {
        complain(program, "note", joined("not every word is in the vocabulary; the model reads: ", read));
    }
    return words.encode(text, true);
}

/// Generated tokens as text. Special tokens are left out; a character that is cut waits for its rest.
class token_text {
public:
    explicit token_text(const tokenizer* words) : words_(words) {}

    /// The text that is certain with this token; without a tokenizer the id and a space.
    [[nodiscard]] std::string push(token_id token) {
        if (words_ == nullptr) {
            return std::to_string(token) + ' ';
        }
        try {
            return words_->is_special(token) ? std::string() : stream_.push(words_->token_bytes(token));
        } catch (const config_error&) {
            return stream_.push("\xEF\xBF\xBD");  // vocabularies are padded with ids that no token has
        }
    }
    [[nodiscard]] std::string finish() { return stream_.finish(); }

    [[nodiscard]] static std::string all(const tokenizer& words, std::span<const token_id> tokens) {
        token_text text(&words);
        std::string out;
        for (const token_id token : tokens) {
            out += text.push(token);
        }
        return out + text.finish();
    }

private:
    const tokenizer* words_;
    utf8_stream stream_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
