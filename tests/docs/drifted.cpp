// Documents that drifted away from what they show: every way of it is reported.
#include <utility>

#include <doctest/doctest.h>

#include "docs/document.hpp"
#include "support/temp_folder.hpp"

using namespace dflash_test;

namespace {

const std::string source =
    "int before;\n"
    "// [whole]\n"
    "int f() {\n"
    "    // [inner]\n"
    "    int x = 1;\n"
    "\n"
    "        x += 2;\n"
    "    // [/inner]\n"
    "    return x;\n"
    "}\n"
    "// [/whole]\n"
    "// [hollow]\n"
    "// [/hollow]\n"
    "// [twice]\n"
    "// [/twice]\n"
    "// [twice]\n"
    "int z;\n"
    "// [/twice]\n"
    "// [open]\n";
const std::string output = "  one\n  two\n\n  three\n";

text_lines faults(const std::string& text) {
    const temp_folder root;
    root.write("a/source.cpp", source);
    root.write("a/output.txt", output);
    root.write("docs/other.md", "# Other\n");
    return faults_of(parse(lines_of(text)), root.path(), root.path() / "docs");
}

}  // namespace

TEST_CASE("a document that shows what there is has no fault") {
    CHECK(faults("# Title\n\n<!-- region: a/source.cpp inner -->\n```cpp\nint x = 1;\n\n    x += 2;\n```\n").empty());
    CHECK(faults("<!-- region: a/source.cpp whole -->\n```cpp\n"
                 "int f() {\n    int x = 1;\n\n        x += 2;\n    return x;\n}\n```\n")
              .empty());
    CHECK(faults("<!-- lines: a/output.txt -->\n```text\n  two\n\n```\n").empty());
    CHECK(faults("<!-- lines: a/source.cpp -->\n```cpp\nint before;\n```\n").empty());
    CHECK(
        faults("[a](other.md), [b](other.md#part), [c](#here), [d](https://nowhere.invalid/x), [e](../a/)\n").empty());
    CHECK(faults("Code is no link: `[](index)`\n\n```cpp\nauto f = [](index i) { return i; };  // <!-- x -->\n```\n")
              .empty());
}

TEST_CASE("a document that drifted has exactly one fault") {
    const std::pair<const char*, const char*> drifted[] = {
        // regions
        {"<!-- region: a/source.cpp inner -->\n```cpp\nint x = 2;\n\n    x += 2;\n```\n", "not the region [inner]"},
        {"<!-- region: a/source.cpp inner -->\n```cpp\nint x = 1;\n```\n", "not the region [inner]"},
        {"<!-- region: a/source.cpp inner -->\n```cpp\n    int x = 1;\n\n        x += 2;\n```\n",
         "not the region [inner]"},
        {"<!-- region: a/source.cpp nobody -->\n```cpp\nint x;\n```\n", "has no region [nobody]"},
        {"<!-- region: a/source.cpp hollow -->\n```cpp\nint x;\n```\n", "has no region [hollow]"},
        {"<!-- region: a/source.cpp twice -->\n```cpp\nint z;\n```\n", "has no region [twice]"},
        {"<!-- region: a/source.cpp open -->\n```cpp\nint z;\n```\n", "has no region [open]"},
        {"<!-- region: a/missing.cpp inner -->\n```cpp\nint x;\n```\n", "there is no file a/missing.cpp"},
        {"<!-- region: a/source.cpp inner -->\n```text\nint x = 1;\n```\n", "another kind"},
        // pieces
        {"<!-- lines: a/output.txt -->\n```text\n  two\n  three\n```\n", "no piece of a/output.txt"},
        {"<!-- lines: a/output.txt -->\n```text\n  on\n```\n", "no piece of a/output.txt"},
        {"<!-- lines: a/output.txt -->\n```text\none\n```\n", "no piece of a/output.txt"},
        {"<!-- lines: a/output.txt -->\n```text\n  two\n\n  three\n\n```\n", "no piece of a/output.txt"},
        {"<!-- lines: a/output.txt -->\n```text\n```\n", "the block is empty"},
        {"<!-- lines: a/output.txt -->\n```sh\n  one\n```\n", "another kind"},
        {"<!-- lines: a/output.txt -->\n```\n  one\n```\n", "another kind"},
        // markers
        {"<!-- lines a/output.txt -->\n```text\n  one\n```\n", "not a marker"},
        {"<!-- region: a/source.cpp -->\n```cpp\nint x;\n```\n", "not a marker"},
        {" <!-- lines: a/output.txt -->\n```text\n  one\n```\n", "not a marker"},
        {"<!--lines: a/output.txt-->\n```text\n  one\n```\n", "not a marker"},
        {"text <!-- a remark --> text\n", "not a marker"},
        {"<!-- lines: a/output.txt -->\n\n```text\n  one\n```\n", "right after its marker"},
        {"<!-- lines: a/output.txt -->\n", "not closed"},
        {"```sh\nls\n", "not closed"},
        // links
        {"See [this](missing.md).\n", "a link to nothing: missing.md"},
        {"See [this](a.md) and `code`.\n", "a link to nothing: a.md"},
        {"See [this](missing.md#part).\n", "a link to nothing: missing.md#part"},
    };
    for (const auto& entry : drifted) {
        CAPTURE(entry.first);
        const text_lines found = faults(entry.first);
        REQUIRE(found.size() == 1);
        CHECK_MESSAGE(found[0].find(entry.second) != std::string::npos, found[0]);
    }
}

TEST_CASE("two languages that went apart are told apart") {
    const std::string text = "# A\n## B\n<!-- lines: a/output.txt -->\n```text\n  one\n```\n```math\nx = 1\n```\n";
    const auto beside = [&](const std::string& from, const std::string& to) {
        std::string other = text;
        other.replace(other.find(from), from.size(), to);
        return differences(parse(lines_of(text)), parse(lines_of(other))).size();
    };
    CHECK(beside("# A\n", "# Ä\n") == 0);
    CHECK(beside("# A\n", "") == 1);
    CHECK(beside("## B\n", "### B\n") == 1);
    CHECK(beside("output.txt", "other.txt") == 1);
    CHECK(beside("  one\n", "  two\n") == 1);
    CHECK(beside("x = 1\n", "x = 2\n") == 1);
    CHECK(beside("math", "text") == 1);
    CHECK(beside("<!-- lines: a/output.txt -->\n", "") == 1);
    CHECK(beside("```math\nx = 1\n```\n", "") == 1);
}
