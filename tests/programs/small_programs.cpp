// hello and plug_in_engine, and that the documents show hello as it is.
#include <filesystem>
#include <regex>
#include <string>

#include <doctest/doctest.h>

#include "programs/run_program.hpp"

using namespace dflash_test;

TEST_CASE("hello prints the tokens of the shipped pair") {
    const std::string expected =
        "124 96 38 52 96 83 110 3 145 121 4 114 6 4 117 9 4 120 109 106 4 120 109 35 4 111 110 3 149 121 4 116 6 4 117 "
        "9 "
        "4 112 112 109 106 4 112 109 35 4 112 110 3 142 121 4 117 6 4 112 9 4 118 109 106 4 118 110 3 126 121 4 118 "
        "112 "
        "120 1 \n14.20 tokens a round\n";
    const outcome here = run_line("cd " + in_quotes(DFLASH_ROOT) + " && " + in_quotes(DFLASH_HELLO));
    CHECK(here.status == 0);
    CHECK(here.out == expected);
    const outcome named = run(DFLASH_HELLO, {std::string(DFLASH_MODELS) + "/worked-problems"});
    CHECK(named.out == expected);
    CHECK(refused(run(DFLASH_HELLO, {"/no/such/folder"}), "hello", "/no/such/folder"));
}

TEST_CASE("plug_in_engine: a foreign engine is decoded without loss") {
    const outcome result = run(DFLASH_PLUG_IN_ENGINE, {});
    CHECK(result.status == 0);
    CHECK(result.out.starts_with("EQUAL: 600 tokens of 3 prompts, "));
    CHECK(std::stod(result.out.substr(result.out.find("prompts, ") + 9)) > 1.5);  // the drafts do count
}

// A document marks a block that it cuts from a program: <!-- region: FILE NAME -->, then a fenced block. In the
// program the block stands between the lines "// [NAME]" and "// [/NAME]".
TEST_CASE("code shown in documents is the code of the programs") {
    const std::filesystem::path root = DFLASH_ROOT;
    const std::regex marked("<!-- region: (\\S+) (\\S+) -->\n```cpp\n");
    std::vector<std::filesystem::path> documents = {root / "README.md"};
    for (const auto& entry : std::filesystem::directory_iterator(root / "docs")) {
        documents.push_back(entry.path());
    }
    int regions = 0;
    for (const std::filesystem::path& document : documents) {
        if (document.extension() != ".md") {
            continue;
        }
        const std::string text = read_file(document);
        for (std::sregex_iterator at(text.begin(), text.end(), marked); at != std::sregex_iterator(); ++at) {
            CAPTURE(document.string());
            const auto first = static_cast<std::size_t>(at->position() + at->length());
            const std::string shown = text.substr(first, text.find("```\n", first) - first);
            const std::string source = read_file(root / (*at)[1].str());
            const std::string begin = "// [" + (*at)[2].str() + "]\n";
            const std::size_t from = source.find(begin);
            REQUIRE(from != std::string::npos);
            const std::size_t to = source.find("// [/" + (*at)[2].str() + "]", from);
            REQUIRE(to != std::string::npos);
            CHECK(shown == source.substr(from + begin.size(), to - from - begin.size()));
            ++regions;
        }
        // Every marker must have the form above, or its block would go unchecked.
        std::size_t markers = 0;
        for (std::size_t at = text.find("<!-- region:"); at != std::string::npos;
             at = text.find("<!-- region:", at + 1)) {
            ++markers;
        }
        CHECK(markers == static_cast<std::size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), marked),
                                                                std::sregex_iterator())));
    }
    CHECK(regions >= 1);
}
