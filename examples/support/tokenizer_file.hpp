// Reads a Hugging Face tokenizer.json into plain tables.
//
// Understands byte-level BPE (Split and ByteLevel pre-tokenizers, NFC, merges in both notations, ignore_merges, added
// tokens, TemplateProcessing) and WordLevel behind a Split pre-tokenizer. Everything else is refused, naming file and
// key: a tokenizer that is nearly right gives a model text it has never seen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dflash/vocabulary.hpp>

#include "tokenizer_added.hpp"
#include "tokenizer_bytes.hpp"
#include "tokenizer_json.hpp"
#include "tokenizer_merges.hpp"
#include "tokenizer_nfc.hpp"
#include "tokenizer_regex.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

enum class tokenizer_model : std::uint8_t { word_level, byte_level_bpe };

struct token_entry {
    std::string bytes;     ///< what the token decodes to
    bool special = false;  ///< an added token marked special: may be left out of decoded text
};

/// Lets a map with string keys be searched by string_view.
struct text_hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
        return std::hash<std::string_view>{}(text);
    }
};
using text_to_id = std::unordered_map<std::string, token_id, text_hash, std::equal_to<>>;

/// What a tokenizer.json says.
struct tokenizer_tables {
    tokenizer_model model = tokenizer_model::word_level;
    std::unordered_map<token_id, token_entry> entries;  ///< model vocabulary and added tokens; ids may have gaps
    text_to_id model_ids;                               ///< bytes -> id, model vocabulary only
    text_to_id added_ids;                               ///< text -> id, added tokens only
    added_tokens added_raw;                             ///< matched in the text as it comes
    added_tokens added_normalized;                      ///< matched after normalisation
    bool nfc = false;
    std::vector<split_regex> splits;  ///< applied one after the other
    std::vector<token_id> before;     ///< what the template puts in front when special tokens are asked for
    std::vector<token_id> after;      ///< and behind

    // byte-level BPE only
    std::array<token_id, 256> byte_ids{};  ///< -1 where the vocabulary has no token for the byte
    merge_table merges;
    bool ignore_merges = false;  ///< a word that is in the vocabulary is one token, whatever the merges say

    // WordLevel only
    std::optional<token_id> unknown;  ///< the id of a word that is not in the vocabulary
};

namespace detail {

/// The split that the ByteLevel pre-tokenizer makes when use_regex is on (published with GPT-2).
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Fills tokenizer_tables, one part of the file after the other.
class tokenizer_reader {
public:
    explicit tokenizer_reader(const std::string& path) : document_(read_json(path)), root_(document_, path) {}

    [[nodiscard]] tokenizer_tables run() {
        root_.expect_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                           "post_processor", "decoder", "model"});
        if (root_["version"].text() != "1.0") {
            root_["version"].refuse();
        }
        root_["truncation"].expect_off();
        root_["padding"].expect_off();
        read_model(root_["model"]);
        read_normalizer(root_["normalizer"]);
        read_added(root_["added_tokens"]);
        read_pre_tokenizer(root_["pre_tokenizer"]);
        read_decoder(root_["decoder"]);
        read_post_processor(root_["post_processor"]);
        return std::move(out_);
    }

private:
    [[nodiscard]] bool is_bpe() const noexcept { return out_.model == tokenizer_model::byte_level_bpe; }

    void read_model(const json_node& model) {
        const std::string& type = model["type"].text();
        if (type == "WordLevel") {
            model.expect_only({"type", "vocab", "unk_token"});
            out_.model = tokenizer_model::word_level;
            read_vocabulary(model["vocab"]);
            const auto unknown = out_.model_ids.find(model["unk_token"].text());
            if (unknown != out_.model_ids.end()) {
                out_.unknown = unknown->second;
            }
        } else if (type == "BPE") {
            out_.model = tokenizer_model::byte_level_bpe;
            read_bpe(model);
        } else {
            model["type"].refuse();
        }
    }

    void read_bpe(const json_node& model) {
        model.expect_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                           "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
        for (const char* key :
             {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"}) {
            model[key].expect_off();
        }
        out_.ignore_merges = model["ignore_merges"].flag_or(false);
        read_vocabulary(model["vocab"]);
        bool every_byte = true;
        for (std::size_t byte = 0; byte < out_.byte_ids.size(); ++byte) {
            const char c = static_cast<char>(static_cast<unsigned char>(byte));
            const auto found = out_.model_ids.find(std::string_view(&c, 1));
            out_.byte_ids[byte] = found == out_.model_ids.end() ? -1 : found->second;
            every_byte = every_byte && out_.byte_ids[byte] >= 0;
        }
        if (!every_byte) {
            model["unk_token"].expect_off();  // never needed when every byte is a token
        }
        read_merges(model["merges"]);
    }

    void read_vocabulary(const json_node& vocab) {
        for (const auto& member : vocab.object().items()) {
            const std::string& entry = member.key();
            const token_id id = id_from_json(member.value(), vocab.where(), entry);
            // An entry outside the byte alphabet cannot come out of bytes; it still decodes, to its own text.
            std::optional<std::string> bytes = is_bpe() ? bytes_of_entry(entry) : entry;
            add_entry(vocab.where(), id, {bytes.value_or(entry), false});
            if (bytes.has_value()) {
                out_.model_ids.emplace(*std::move(bytes), id);
            }
        }
        if (out_.entries.empty()) {
            raise<io_error>(vocab.where(), ": the vocabulary is empty");
        }
    }

    void add_entry(const std::string& where, token_id id, token_entry entry) {
        const auto [place, fresh] = out_.entries.try_emplace(id, std::move(entry));
        if (!fresh) {
            raise<io_error>(where, ": the id ", id, " is given twice, the first time for \"", place->second.bytes,
                            "\"");
        }
    }

    void read_merges(const json_node& merges) {
        std::size_t rank = 0;
        for (const nlohmann::json& merge : merges.array()) {
            const auto complain = [&](const char* what) {
                raise<io_error>(merges.where(), "[", rank, "]: ", merge.dump(), ": ", what);
            };
            std::string left;
            std::string right;
            if (merge.is_string()) {
                const std::string& both = merge.get_ref<const std::string&>();
                const std::size_t space = both.find(' ');
                if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
                    complain("needs two parts with a space between them");
                }
                left = both.substr(0, space);
                right = both.substr(space + 1);
            } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
                left = merge[0].get<std::string>();
                right = merge[1].get<std::string>();
            } else {
                complain("needs a string or two strings");
            }
            const auto id_of = [&](const std::string& entry) {
                const std::optional<std::string> bytes = bytes_of_entry(entry);
                const auto found = bytes.has_value() ? out_.model_ids.find(*bytes) : out_.model_ids.end();
                if (found == out_.model_ids.end()) {
                    complain("both parts and what they make must be in the vocabulary");
                }
                return found->second;
            };
            if (!out_.merges.add(id_of(left), id_of(right), id_of(left + right))) {
                complain("is listed twice");
            }
            ++rank;
        }
    }

    void read_normalizer(const json_node& normalizer) {
        if (normalizer.is_null()) {
            return;
        }
        if (normalizer["type"].text() != "NFC") {
            normalizer["type"].refuse();
        }
        normalizer.expect_only({"type"});
        out_.nfc = true;
    }

    void read_added(const json_node& added) {
        if (added.is_null()) {
            return;
        }
        for (const json_node& token : added.items()) {
            token.expect_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
            for (const char* key : {"single_word", "lstrip", "rstrip"}) {
                token[key].expect_off();
            }
            const std::string& content = token["content"].text();
            const token_id id = id_from_json(token["id"].value(), token.where(), content);
            if (content.empty()) {
                raise<io_error>(token.where(), ".content: is empty");
            }
            add_added(token, content, id);
            const bool special = token["special"].flag_or(false);
            out_.entries.at(id).special = special;
            if (token["normalized"].flag_or(!special)) {
                out_.added_normalized.add(out_.nfc ? to_nfc(content) : content, id);
            } else {
                out_.added_raw.add(content, id);
            }
        }
    }

    /// An added token may repeat an entry of the model, but may not contradict one.
    void add_added(const json_node& token, const std::string& content, token_id id) {
        const auto in_model = out_.model_ids.find(content);
        if (in_model != out_.model_ids.end() && in_model->second != id) {
            raise<io_error>(token.where(), ": \"", content, "\" has the id ", id, ", in the model it has ",
                            in_model->second);
        }
        if (!out_.added_ids.emplace(content, id).second) {
            raise<io_error>(token.where(), ": \"", content, "\" is added twice");
        }
        const auto known = out_.entries.find(id);
        if (known == out_.entries.end() || known->second.bytes != content) {
            add_entry(token.where(), id, {content, false});
        }
    }

    void read_pre_tokenizer(const json_node& pre_tokenizer) {
        std::vector<json_node> steps;
        if (!pre_tokenizer.is_null() && pre_tokenizer["type"].text() == "Sequence") {
            pre_tokenizer.expect_only({"type", "pretokenizers"});
            steps = pre_tokenizer["pretokenizers"].items();
        } else if (!pre_tokenizer.is_null()) {
            steps.push_back(pre_tokenizer);
        }
        bool to_bytes = false;
        for (const json_node& step : steps) {
            const std::string& type = step["type"].text();
            // After ByteLevel the text is written in another alphabet, which a further pattern would be applied to.
            if (to_bytes || (type != "Split" && !(type == "ByteLevel" && is_bpe()))) {
                step["type"].refuse();
            }
            if (type == "Split") {
                read_split(step);
            } else {
                expect_byte_level(step);
                step["add_prefix_space"].expect_off();
                if (step["use_regex"].flag_or(true)) {
                    out_.splits.emplace_back(gpt2_pattern, step.where());
                }
                to_bytes = true;
            }
        }
        if (is_bpe() && !to_bytes) {
            raise<config_error>(pre_tokenizer.where(), ": BPE without a ByteLevel pre-tokenizer is not supported");
        }
    }

    void read_split(const json_node& step) {
        step.expect_only({"type", "pattern", "behavior", "invert"});
        step["invert"].expect_off();
        if (step["behavior"].text() != "Isolated") {
            step["behavior"].refuse();
        }
        const json_node pattern = step["pattern"];
        pattern.expect_only({"Regex"});
        out_.splits.emplace_back(pattern["Regex"].text(), pattern["Regex"].where());
    }

    /// Of ByteLevel's options only those of the pre-tokenizer change ids: the others move offsets.
    static void expect_byte_level(const json_node& node) {
        node.expect_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    }

    void read_decoder(const json_node& decoder) {
        const std::string_view needed = is_bpe() ? "ByteLevel" : "Fuse";
        if (decoder.is_null()) {
            raise<config_error>(decoder.where(), ": got none, needs ", needed);
        }
        if (decoder["type"].text() != needed) {
            decoder["type"].refuse();
        }
        if (is_bpe()) {
            expect_byte_level(decoder);
        } else {
            decoder.expect_only({"type"});
        }
    }

    void read_post_processor(const json_node& processor) {
        if (processor.is_null()) {
            return;
        }
        const std::string& type = processor["type"].text();
        if (type == "Sequence") {
            processor.expect_only({"type", "processors"});
            for (const json_node& step : processor["processors"].items()) {
                read_post_processor(step);
            }
        } else if (type == "ByteLevel") {
            expect_byte_level(processor);
        } else if (type == "TemplateProcessing" && !has_template_) {
            has_template_ = true;
            read_template(processor);
        } else {
            processor["type"].refuse();
        }
    }

    /// Only `single` is used: pairs of texts are never encoded here.
    void read_template(const json_node& processor) {
        processor.expect_only({"type", "single", "pair", "special_tokens"});
        bool text_seen = false;
        for (const json_node& piece : processor["single"].items()) {
            piece.expect_only({"SpecialToken", "Sequence"});
            const json_node special = piece["SpecialToken"];
            if (special.is_null()) {
                if (text_seen || piece["Sequence"]["id"].text() != "A") {
                    piece.refuse();
                }
                text_seen = true;
                continue;
            }
            const json_node meaning = processor["special_tokens"][special["id"].text().c_str()];
            for (const json_node& id : meaning["ids"].items()) {
                const token_id value = id_from_json(id.value(), id.where(), special["id"].text());
                if (out_.entries.find(value) == out_.entries.end()) {
                    raise<io_error>(id.where(), ": the id ", value, " is not in the vocabulary");
                }
                (text_seen ? out_.after : out_.before).push_back(value);
            }
        }
        if (!text_seen) {
            raise<io_error>(processor.where(), ".single: has no place for the text");
        }
    }

    nlohmann::json document_;
    json_node root_;
    tokenizer_tables out_;
    bool has_template_ = false;
};

}  // namespace detail

/// Reads a tokenizer.json. Raises io_error for a damaged file, config_error for one that asks for anything else.
[[nodiscard]] inline tokenizer_tables read_tokenizer(const std::string& path) {
    return detail::tokenizer_reader(path).run();
}

}  // namespace examples
DFLASH_END_NAMESPACE
