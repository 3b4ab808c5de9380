#include "support/tokenizer.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "examples/support.hpp"

namespace {

using dflash::token_id;
using dflash::examples::read_json;
using dflash::examples::to_nfc;
using dflash::examples::tokenizer;
using dflash_test::bpe_file;
using dflash_test::golden;
using dflash_test::tokenizer_from;
using dflash_test::word_file;
using ids = std::vector<token_id>;

/// Encodes every text and compares; decodes and gets the text back, normalised if the tokenizer normalises.
void check_cases(const tokenizer& t, const nlohmann::json& cases, const char* key, bool nfc) {
    REQUIRE(cases.size() > 0);
    for (const auto& c : cases) {
        const auto text = c.at("text").get<std::string>();
        CAPTURE(text);
        const auto expected = c.at(key).get<ids>();
        CHECK(t.encode(text) == expected);
        CHECK(t.decode(expected) == (nfc ? to_nfc(text) : text));
    }
}

void check_published(const char* variable, const char* cases, bool nfc) {
    const char* path = std::getenv(variable);
    if (path == nullptr) {
        MESSAGE("skipped: set " << std::string(variable) << " to the published tokenizer.json to run this");
        return;
    }
    // Cut into sections by added tokens, a text is not always the NFC of itself: no case here is of that kind.
    check_cases(tokenizer::load(path), read_json(golden + "/tokenizer/" + cases).at("cases"), "ids", nfc);
}

}  // namespace

TEST_CASE("published tokenizer: Qwen3") {
    check_published("DFLASH_QWEN3_TOKENIZER", "qwen3.json", true);
}

TEST_CASE("published tokenizer: Llama 3.1") {
    check_published("DFLASH_LLAMA3_TOKENIZER", "llama3_1.json", false);
    if (const char* path = std::getenv("DFLASH_LLAMA3_TOKENIZER")) {
        const tokenizer t = tokenizer::load(path);
        CHECK(t.encode("Hello, world!", true) == ids{128000, 9906, 11, 1917, 0});
        CHECK(t.vocab_size() == 128256);
    }
}

TEST_CASE("Qwen3 reduced to the golden texts gives the published ids") {
    const tokenizer t = tokenizer::load(golden + "/tokenizer/qwen3_reduced.json");
    check_cases(t, read_json(golden + "/tokenizer/qwen3.json").at("cases"), "ids", true);
    CHECK(t.vocab_size() == 151669);  // the ids kept their values
    CHECK(t.is_special(151645));
    CHECK_FALSE(t.is_special(151668));  // </think> is added but not special
}

TEST_CASE("byte-level BPE: the shipped pair's cases") {
    const tokenizer t = tokenizer::load(bpe_file);
    check_cases(t, read_json(golden + "/models/prose-and-code/tokenizer_cases.json"), "ids", true);
    CHECK(t.vocab_size() == 2048);
}

TEST_CASE("byte-level BPE: hard texts, also with GPT-2's split and with ignore_merges") {
    const auto cases = read_json(golden + "/tokenizer/prose_and_code.json").at("cases");
    const auto as_it_is = read_json(bpe_file);
    const tokenizer t = tokenizer_from(as_it_is);
    for (const auto& c : cases) {
        const auto text = c.at("text").get<std::string>();
        CAPTURE(text);
        CHECK(t.encode(text) == c.at("as_it_is").get<ids>());
    }

    auto gpt2 = as_it_is;
    gpt2["normalizer"] = nullptr;
    gpt2["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
    check_cases(tokenizer_from(gpt2), cases, "gpt2_split", false);
    gpt2["pre_tokenizer"].erase("use_regex");  // its default is true
    check_cases(tokenizer_from(gpt2), cases, "gpt2_split", false);

    auto whole_words = as_it_is;
    auto& merges = whole_words["model"]["merges"];
    merges.erase(merges.begin() + 40, merges.end());
    whole_words["model"]["ignore_merges"] = true;
    const tokenizer w = tokenizer_from(whole_words);
    for (const auto& c : cases) {
        const auto text = c.at("text").get<std::string>();
        CAPTURE(text);
        CHECK(w.encode(text) == c.at("ignore_merges").get<ids>());
    }
}

TEST_CASE("the golden prompts of the BPE pair decode to their texts, and back") {
    const tokenizer t = tokenizer::load(bpe_file);
    const auto cases = read_json(golden + "/models/prose-and-code/golden.json").at("cases");
    REQUIRE(cases.size() > 0);
    for (const auto& c : cases) {
        const auto text = c.at("prompt_text").get<std::string>();
        CHECK(t.decode(c.at("prompt").get<ids>()) == text);
        CHECK(t.decode(t.encode(text)) == text);
    }
}

TEST_CASE("WordLevel: prompts and solutions of the worked problems, both ways") {
    const tokenizer t = tokenizer::load(word_file);
    CHECK(t.vocab_size() == 157);
    const auto problems = read_json(golden + "/models/worked-problems/problems.json");
    REQUIRE(problems.size() == 45);
    for (const auto& p : problems) {
        const auto prompt = p.at("prompt").get<std::string>();
        const auto prompt_ids = p.at("prompt_ids").get<ids>();
        CHECK(t.encode(prompt) == prompt_ids);
        CHECK(t.decode(prompt_ids) == prompt);
        const auto text = p.at("text").get<std::string>();
        const auto tokens = p.at("tokens").get<ids>();
        CHECK(t.decode(tokens, true) == text);
        CHECK(t.decode(tokens) == text + (tokens.back() == 1 ? "<eot>" : ""));
        CHECK(t.encode(t.decode(tokens)) == tokens);
        const auto solution = p.at("reference_solution").get<std::string>();
        CHECK(t.decode(t.encode(solution)) == solution);
    }
}

TEST_CASE("WordLevel: unknown words become the unknown token, or are refused when there is none") {
    CHECK(tokenizer::load(word_file).encode("xyzzy 7") == ids{0, 4, 118});
    auto document = read_json(word_file);
    document["model"]["unk_token"] = "<unk>";
    const tokenizer t = tokenizer_from(document);
    CHECK(t.encode(" apples") == ids{22});
    CHECK_THROWS_WITH_AS(static_cast<void>(t.encode(" apples xyzzy")), doctest::Contains("xyzzy"),
                         dflash::config_error);
}

TEST_CASE("a template puts tokens around the text, when asked") {
    auto document = read_json(bpe_file);
    document["post_processor"] = nlohmann::json::parse(R"({"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
        {"type": "TemplateProcessing", "pair": [],
         "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "E", "type_id": 0}}],
         "special_tokens": {"B": {"id": "B", "ids": [2044], "tokens": ["<|endoftext|>"]},
                            "E": {"id": "E", "ids": [2046, 2044], "tokens": ["<|im_end|>", "<|endoftext|>"]}}}]})");
    const tokenizer t = tokenizer_from(document);
    CHECK(t.encode("don't", true) == ids{2044, 67, 276, 1168, 2046, 2044});
    CHECK(t.encode("don't", false) == ids{67, 276, 1168});
    CHECK(t.encode("", true) == ids{2044, 2046, 2044});
    // without a template there is nothing to add
    CHECK(tokenizer::load(bpe_file).encode("don't", true) == ids{67, 276, 1168});
}

TEST_CASE("added tokens: leftmost first, longest at one place, before normalisation or after") {
    auto document = read_json(bpe_file);
    const auto add = [&](int id, const char* content, bool normalized) {
        document["added_tokens"].push_back({{"id", id},
                                            {"content", content},
                                            {"single_word", false},
                                            {"lstrip", false},
                                            {"rstrip", false},
                                            {"normalized", normalized},
                                            {"special", false}});
    };
    add(3000, "~~", false);
    add(3001, "~~~", false);
    add(3002, "~x", false);
    add(3003, "\xC3\xA9t\xC3\xA9", true);   // "été", composed
    add(3004, "E\xCC\x81t\xC3\xA9", true);  // "Été", decomposed: normalised itself
    add(3005, "o\xCC\x81", false);          // decomposed, found in the text as it comes
    const tokenizer t = tokenizer_from(document);
    CHECK(t.vocab_size() == 3006);
    CHECK(t.encode("~~~~~") == ids{3001, 3000});
    CHECK(t.encode("~~x") == ids{3000, t.find("x").value()});
    CHECK(t.encode("e\xCC\x81te\xCC\x81") == ids{3003});
    CHECK(t.encode("\xC3\x89t\xC3\xA9") == ids{3004});
    CHECK(t.encode("o\xCC\x81") == ids{3005});
    CHECK(t.encode("\xC3\xB3") != ids{3005});
    CHECK(t.decode(ids{3001, 3003}) == "~~~\xC3\xA9t\xC3\xA9");
}

TEST_CASE("tokens by id and by text") {
    const tokenizer t = tokenizer::load(bpe_file);
    CHECK(t.token_bytes(2044) == "<|endoftext|>");
    CHECK(t.is_special(2044));
    CHECK_FALSE(t.is_special(0));
    CHECK(t.token_bytes(259) == t.decode(ids{259}));
    CHECK(t.find("<|im_end|>") == 2046);
    CHECK(t.find("no such token") == std::nullopt);
    CHECK(t.decode(ids{}) == "");
    // a token that is half a character
    const ids smile = t.encode("\xF0\x9F\x98\x80");
    REQUIRE(smile.size() > 1);
    CHECK(t.decode(ids{smile.front()}).size() < 4);
    CHECK(t.decode(smile) == "\xF0\x9F\x98\x80");
}

TEST_CASE("an id outside the vocabulary is refused, with the id and the size") {
    const tokenizer t = tokenizer::load(word_file);
    for (const token_id id : {-1, 157, 2147483647}) {
        CAPTURE(id);
        CHECK_THROWS_WITH_AS(static_cast<void>(t.decode(ids{3, id})), doctest::Contains(std::to_string(id).c_str()),
                             dflash::config_error);
        CHECK_THROWS_WITH_AS(static_cast<void>(t.token_bytes(id)), doctest::Contains("157"), dflash::config_error);
        CHECK_THROWS_AS(static_cast<void>(t.is_special(id)), dflash::config_error);
    }
    // a gap in the ids is outside too
    const tokenizer sparse = tokenizer::load(golden + "/tokenizer/qwen3_reduced.json");
    CHECK_THROWS_WITH_AS(static_cast<void>(sparse.token_bytes(151642)), doctest::Contains("151642"),
                         dflash::config_error);
}

TEST_CASE("text that is not UTF-8 is refused, with the byte") {
    const tokenizer t = tokenizer::load(bpe_file);
    CHECK_THROWS_WITH_AS(static_cast<void>(t.encode("abc\xFFz")), doctest::Contains("byte 3"), dflash::io_error);
    CHECK_THROWS_WITH_AS(static_cast<void>(t.encode("\xC3\xA9\xED\xA0\x80")), doctest::Contains("byte 2"),
                         dflash::io_error);
    CHECK_THROWS_WITH_AS(static_cast<void>(t.encode("ends in the middle \xE4\xBD")), doctest::Contains("byte 19"),
                         dflash::io_error);
}

TEST_CASE("a byte without a token is refused, not dropped") {
    auto document = read_json(bpe_file);
    document["model"]["vocab"].erase("!");
    CHECK_THROWS_WITH_AS(static_cast<void>(tokenizer_from(document)), doctest::Contains("model.merges"),
                         dflash::io_error);
    document["model"]["merges"] = nlohmann::json::array();
    const tokenizer t = tokenizer_from(document);
    CHECK(t.encode("a").size() == 1);
    CHECK_THROWS_WITH_AS(static_cast<void>(t.encode("a!")), doctest::Contains("byte 33"), dflash::config_error);
}

TEST_CASE("long texts are read in reasonable time") {
    const tokenizer t = tokenizer::load(bpe_file);
    for (const std::string& piece :
         {std::string("a"), std::string(" "), std::string("\n"), std::string("\xC3\xA9"), std::string("the people ")}) {
        std::string text;
        while (text.size() < 100000) {
            text += piece;
        }
        CHECK(t.decode(t.encode(text)) == text);
    }
}

TEST_CASE("one tokenizer serves several threads") {
    const tokenizer t = tokenizer::load(bpe_file);
    const std::string text = "In the beginning God created the heaven and the earth.\n\tif err != nil { return }\n";
    const ids expected = t.encode(text);
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (int& count : wrong) {
        threads.emplace_back([&t, &text, &expected, &count] {
            for (int i = 0; i < 200; ++i) {
                count += t.encode(text) != expected;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == std::vector<int>(4, 0));
}
