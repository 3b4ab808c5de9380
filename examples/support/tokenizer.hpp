// A tokenizer for the examples: text to token ids and back, as a Hugging Face tokenizer.json describes it.
//
// Needs PCRE2, utf8proc and nlohmann/json, which is why it is no part of the library. What it supports is said in
// tokenizer_file.hpp; anything else in a file is refused. Text that is not valid UTF-8 is refused as well.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/vocabulary.hpp>

#include "tokenizer_file.hpp"
#include "utf8_stream.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// An immutable tokenizer; may be used from several threads at once. Move-only.
class tokenizer {
public:
    /// Reads `path`, a tokenizer.json. Raises io_error for a damaged file, config_error for an unsupported one.
    [[nodiscard]] static tokenizer load(const std::string& path) { return tokenizer(read_tokenizer(path)); }

    /// The ids of `text`. Added tokens written out in the text become their ids. With add_special_tokens the file's
    /// template is applied (Llama: a begin-of-text token in front). Raises io_error, naming the byte, if `text` is not
    /// UTF-8, and config_error if the vocabulary cannot express it.
    [[nodiscard]] std::vector<token_id> encode(std::string_view text, bool add_special_tokens = false) const {
        const std::size_t valid = valid_utf8_prefix(text);
        if (valid != text.size()) {
            raise<io_error>("encode: the text is not valid UTF-8 at byte ", valid);
        }
        std::vector<token_id> out;
        if (add_special_tokens) {
            out = tables_.before;
        }
        const auto emit = [&](token_id id) { out.push_back(id); };
        const auto encode_section = [&](std::string_view section) { encode_normalized(section, out); };
        tables_.added_raw.split(
            text,
            [&](std::string_view section) {
                if (tables_.nfc) {
                    tables_.added_normalized.split(to_nfc(section), encode_section, emit);
                } else {
                    tables_.added_normalized.split(section, encode_section, emit);
                }
            },
            emit);
        if (add_special_tokens) {
            out.insert(out.end(), tables_.after.begin(), tables_.after.end());
        }
        return out;
    }

    /// The bytes of the tokens, one after the other; they need not be whole characters (see utf8_stream). With
    /// skip_special special tokens are left out. Raises config_error for an id that is not in the vocabulary.
    [[nodiscard]] std::string decode(std::span<const token_id> ids, bool skip_special = false) const {
        std::string out;
        for (const token_id id : ids) {
            const token_entry& entry = entry_of(id);
            if (!(skip_special && entry.special)) {
                out += entry.bytes;
            }
        }
        return out;
    }

    /// What one token decodes to. Raises config_error for an id that is not in the vocabulary.
    [[nodiscard]] std::string_view token_bytes(token_id id) const { return entry_of(id).bytes; }

    /// Whether the file marks the token as special. Raises config_error for an id that is not in the vocabulary.
    [[nodiscard]] bool is_special(token_id id) const { return entry_of(id).special; }

    /// The id of the token that decodes to exactly these bytes, if there is one.
    [[nodiscard]] std::optional<token_id> find(std::string_view bytes) const {
        for (const text_to_id* ids : {&tables_.added_ids, &tables_.model_ids}) {
            if (const auto found = ids->find(bytes); found != ids->end()) {
                return found->second;
            }
        }
        return std::nullopt;
    }

    /// One more than the largest id. There may be ids below it that no token has.
    [[nodiscard]] index vocab_size() const noexcept { return vocab_size_; }

private:
    explicit tokenizer(tokenizer_tables tables) : tables_(std::move(tables)) {
        for (const auto& [id, entry] : tables_.entries) {
            vocab_size_ = (std::max)(vocab_size_, static_cast<index>(id) + 1);
        }
    }

    [[nodiscard]] const token_entry& entry_of(token_id id) const {
        const auto found = tables_.entries.find(id);
        if (found == tables_.entries.end()) {
            raise<config_error>("token id ", id, " is not in the vocabulary of size ", vocab_size_);
        }
        return found->second;
    }

    void encode_normalized(std::string_view section, std::vector<token_id>& out) const {
        std::vector<std::string_view> words{section};
        for (const split_regex& split : tables_.splits) {
            std::vector<std::string_view> finer;
            for (const std::string_view word : words) {
                split.split(word, [&](std::string_view piece) { finer.push_back(piece); });
            }
            words = std::move(finer);
        }
        for (const std::string_view word : words) {
            if (tables_.model == tokenizer_model::word_level) {
                encode_word(word, out);
            } else {
                encode_bytes(word, out);
            }
        }
    }

    void encode_word(std::string_view word, std::vector<token_id>& out) const {
        const auto found = tables_.model_ids.find(word);
        if (found != tables_.model_ids.end()) {
            out.push_back(found->second);
        } else if (tables_.unknown.has_value()) {
            out.push_back(*tables_.unknown);
        } else {
            raise<config_error>("encode: \"", word,
                                "\" is not in the vocabulary, which has no token for unknown words");
        }
    }

    void encode_bytes(std::string_view word, std::vector<token_id>& out) const {
        if (tables_.ignore_merges) {
            if (const auto whole = tables_.model_ids.find(word); whole != tables_.model_ids.end()) {
                out.push_back(whole->second);
                return;
            }
        }
        std::vector<token_id> symbols;
        symbols.reserve(word.size());
        for (const char c : word) {
            const token_id id = tables_.byte_ids[static_cast<unsigned char>(c)];
            if (id < 0) {
                raise<config_error>("encode: the vocabulary has no token for the byte ",
                                    static_cast<int>(static_cast<unsigned char>(c)));
            }
            symbols.push_back(id);
        }
        tables_.merges.apply(symbols, out);
    }

    tokenizer_tables tables_;
    index vocab_size_ = 0;
};

}  // namespace examples
DFLASH_END_NAMESPACE
