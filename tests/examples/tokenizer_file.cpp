// What a tokenizer.json may not ask for, and what it must not get wrong.
#include "support/tokenizer_file.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "examples/support.hpp"

namespace {

using dflash::examples::read_json;
using dflash::examples::tokenizer;
using dflash_test::bpe_file;
using dflash_test::temporary_file;
using dflash_test::tokenizer_from;
using dflash_test::word_file;
using json = nlohmann::json;

const json bpe = read_json(bpe_file);
const json words = read_json(word_file);

/// Loading for the sake of the error.
void load(const std::string& path) {
    static_cast<void>(tokenizer::load(path));
}

/// Changes a document at a JSON pointer and expects an error that names the file and `key`.
template <class Error>
void expect_error(const json& base, const std::string& pointer, const json& value, const std::string& key) {
    CAPTURE(pointer);
    CAPTURE(value.dump().substr(0, 200));
    json document = base;
    document[json::json_pointer(pointer)] = value;
    const temporary_file file(document.dump());
    std::string message;
    try {
        load(file.path());
    } catch (const Error& e) {
        message = e.what();
    }
    CHECK(message.find(key) != std::string::npos);
    CHECK(message.find(file.path()) != std::string::npos);
}

void unsupported(const json& base, const std::string& pointer, const json& value, const std::string& key) {
    expect_error<dflash::config_error>(base, pointer, value, key);
}

void damaged(const json& base, const std::string& pointer, const json& value, const std::string& key) {
    expect_error<dflash::io_error>(base, pointer, value, key);
}

}  // namespace

TEST_CASE("what is not supported is refused and named") {
    const auto with_type = [](const char* type) { return json{{"type", type}}; };
    SUBCASE("at the top") {
        unsupported(bpe, "/version", "2.0", "version");
        unsupported(bpe, "/truncation", {{"max_length", 5}}, "truncation");
        unsupported(bpe, "/padding", {{"strategy", "BatchLongest"}}, "padding");
        unsupported(bpe, "/novelty", 1, "novelty");
    }
    SUBCASE("model") {
        unsupported(bpe, "/model/type", "Unigram", "model.type");
        unsupported(bpe, "/model/type", "WordPiece", "model.type");
        unsupported(bpe, "/model/dropout", 0.1, "model.dropout");
        unsupported(bpe, "/model/continuing_subword_prefix", "##", "continuing_subword_prefix");
        unsupported(bpe, "/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
        unsupported(bpe, "/model/fuse_unk", true, "fuse_unk");
        unsupported(bpe, "/model/byte_fallback", true, "byte_fallback");
        unsupported(bpe, "/model/surprise", true, "surprise");
        unsupported(words, "/model/merges", json::array(), "merges");
        json document = bpe;
        document["model"]["vocab"].erase("!");
        document["model"]["merges"] = json::array();
        unsupported(document, "/model/unk_token", "a", "unk_token");
    }
    SUBCASE("normalizer") {
        for (const char* type : {"NFKC", "NFD", "Lowercase", "Sequence", "Replace", "Prepend"}) {
            unsupported(bpe, "/normalizer", with_type(type), "normalizer.type");
        }
        unsupported(bpe, "/normalizer/form", "C", "form");
    }
    SUBCASE("pre-tokenizer") {
        for (const char* type : {"Whitespace", "Metaspace", "Digits", "BertPreTokenizer", "Punctuation"}) {
            unsupported(bpe, "/pre_tokenizer", with_type(type), "pre_tokenizer.type");
            unsupported(bpe, "/pre_tokenizer/pretokenizers/0", with_type(type), "pretokenizers[0].type");
        }
        for (const char* behavior : {"Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
            unsupported(bpe, "/pre_tokenizer/pretokenizers/0/behavior", behavior, "behavior");
        }
        unsupported(bpe, "/pre_tokenizer/pretokenizers/0/invert", true, "invert");
        unsupported(bpe, "/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}, "String");
        unsupported(bpe, "/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space");
        unsupported(bpe, "/pre_tokenizer", nullptr, "pre_tokenizer");
        unsupported(bpe, "/pre_tokenizer/pretokenizers/2", bpe["pre_tokenizer"]["pretokenizers"][0],
                    "pretokenizers[2].type");
        unsupported(words, "/pre_tokenizer", with_type("ByteLevel"), "pre_tokenizer.type");
    }
    SUBCASE("decoder") {
        unsupported(bpe, "/decoder", nullptr, "decoder");
        unsupported(bpe, "/decoder", with_type("Fuse"), "decoder.type");
        unsupported(words, "/decoder", with_type("WordPiece"), "decoder.type");
        unsupported(words, "/decoder", nullptr, "decoder");
        unsupported(words, "/decoder/suffix", "</w>", "suffix");
    }
    SUBCASE("post-processor") {
        unsupported(bpe, "/post_processor", with_type("BertProcessing"), "post_processor.type");
        unsupported(bpe, "/post_processor", with_type("RobertaProcessing"), "post_processor.type");
        const json once = json::parse(R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                                          "single": [{"Sequence": {"id": "A", "type_id": 0}}]})");
        unsupported(bpe, "/post_processor", {{"type", "Sequence"}, {"processors", {once, once}}}, "processors[1].type");
        json wrong_sequence = once;
        wrong_sequence["single"][0]["Sequence"]["id"] = "B";
        unsupported(bpe, "/post_processor", wrong_sequence, "single[0]");
    }
    SUBCASE("added tokens") {
        for (const char* key : {"single_word", "lstrip", "rstrip"}) {
            unsupported(bpe, "/added_tokens/1/" + std::string(key), true, "added_tokens[1]." + std::string(key));
        }
        unsupported(bpe, "/added_tokens/1/colour", "red", "colour");
    }
}

TEST_CASE("what is damaged is refused and named") {
    damaged(bpe, "/model", nullptr, "model");
    damaged(bpe, "/model", "BPE", "model");
    damaged(bpe, "/model/vocab", json::array(), "model.vocab");
    damaged(words, "/model/vocab", json::object(), "model.vocab");
    damaged(bpe, "/model/ignore_merges", "yes", "model.ignore_merges");
    damaged(bpe, "/version", nullptr, "version");
    for (const json& id : {json(-1), json(1.5), json(2147483648), json("7"), json(nullptr), json(1e30)}) {
        damaged(bpe, "/model/vocab/the", id, "\"the\"");
        damaged(bpe, "/added_tokens/0/id", id, "added_tokens[0]");
    }
    damaged(bpe, "/model/vocab/the", 5, "the id 5 is given twice");
    damaged(bpe, "/added_tokens/0/id", 5, "the id 5 is given twice");
    damaged(words, "/added_tokens/1/id", 2, "<eot>");
    damaged(bpe, "/added_tokens/0/content", "", "added_tokens[0]");
    damaged(bpe, "/added_tokens/0/content", "<|mask|>", "<|mask|>");
    damaged(bpe, "/added_tokens", "none", "added_tokens");
    damaged(bpe, "/pre_tokenizer/pretokenizers/0/pattern/Regex", "(?:a", "Regex");
    damaged(bpe, "/pre_tokenizer/pretokenizers/0/pattern/Regex", 5, "Regex");
    damaged(bpe, "/post_processor", json::parse(R"({"type": "TemplateProcessing", "pair": [], "single": []})"),
            "single");
    damaged(bpe, "/post_processor",
            json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B"}},
                            {"Sequence": {"id": "A"}}], "special_tokens": {"B": {"ids": [9999]}}})"),
            "9999");
    damaged(bpe, "/post_processor",
            json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B"}}],
                            "special_tokens": {}})"),
            "special_tokens.B");
}

TEST_CASE("merges: both notations, and nothing else") {
    const auto in_strings = [] {
        json document = bpe;
        for (json& merge : document["model"]["merges"]) {
            merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
        }
        return document;
    };
    const std::string text = "In the beginning\n\tif err != nil";
    CHECK(tokenizer_from(in_strings()).encode(text) == tokenizer::load(bpe_file).encode(text));

    const std::vector<json> broken{
        "the",
        "t h e",
        "",
        json::array({"t"}),
        json::array({"t", "h", "e"}),
        json::array({"t", 5}),
        5,
        nullptr,
        json::array({"qqq", "zzz"}),         // parts unknown
        json::array({"q", "z"}),             // result unknown
        json::array({"\xE4\xBD\xA0", "a"}),  // not in the byte alphabet
        bpe["model"]["merges"][0],           // listed twice
    };
    for (const json& merge : broken) {
        damaged(bpe, "/model/merges/7", merge, "model.merges[7]");
    }
    damaged(bpe, "/model/merges", json::object(), "model.merges");
}

TEST_CASE("a file that is not there or not JSON") {
    CHECK_THROWS_WITH_AS(load("/no/such/tokenizer.json"), doctest::Contains("/no/such/tokenizer.json"),
                         dflash::io_error);
    for (const char* content : {"", "{", "[1,]", "{\"version\": \"\xFF\"}", "{\"version\": \"\\ud800\"}"}) {
        const temporary_file file(content);
        CHECK_THROWS_WITH_AS(load(file.path()), doctest::Contains(file.path().c_str()), dflash::io_error);
    }
    for (const char* content : {"[]", "null", "7", "{}"}) {
        const temporary_file file(content);
        CHECK_THROWS_AS(load(file.path()), dflash::io_error);
    }
    // deep nesting neither crashes nor loads
    const temporary_file deep(std::string(100000, '[') + std::string(100000, ']'));
    CHECK_THROWS_AS(load(deep.path()), dflash::io_error);
}

TEST_CASE("entries outside the byte alphabet decode to their own text") {
    json document = bpe;
    document["model"]["vocab"]["\xE2\x96\x81x"] = 5000;
    const tokenizer t = tokenizer_from(document);
    CHECK(t.token_bytes(5000) == "\xE2\x96\x81x");
    CHECK(t.vocab_size() == 5001);
}

TEST_CASE("the byte alphabet") {
    using dflash::examples::bytes_of_entry;
    CHECK(bytes_of_entry("a") == "a");
    CHECK(bytes_of_entry("\xC4\xA0t") == " t");  // U+0120
    CHECK(bytes_of_entry("\xC4\x8A") == "\n");   // U+010A
    CHECK(bytes_of_entry("\xC4\x80") == std::string(1, '\0'));
    CHECK(bytes_of_entry("\xC3\xA9") == "\xE9");  // U+00E9 is the byte E9
    CHECK(bytes_of_entry("\xC5\x83") == "\xAD");  // U+0143, the last one
    CHECK(bytes_of_entry("\xC5\x84") == std::nullopt);
    CHECK(bytes_of_entry(" ") == std::nullopt);
    CHECK(bytes_of_entry("\xC2\xAD") == std::nullopt);
    CHECK(bytes_of_entry("a\xE2\x96\x81") == std::nullopt);
    std::vector<bool> seen(256, false);
    for (const int byte : dflash::examples::detail::byte_of_code_point) {
        if (byte >= 0) {
            CHECK_FALSE(seen[static_cast<std::size_t>(byte)]);
            seen[static_cast<std::size_t>(byte)] = true;
        }
    }
    CHECK(seen == std::vector<bool>(256, true));
}
