// The documents of the project: README.md, docs and the notes beside the code.
#include <doctest/doctest.h>

#include "docs/document.hpp"

using namespace dflash_test;

namespace {

const std::filesystem::path root = DFLASH_ROOT;

std::vector<std::filesystem::path> documents() {
    std::vector<std::filesystem::path> out = {root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md",
                                              root / "tests" / "README.md"};
    for (const auto& entry : std::filesystem::directory_iterator(root / "docs")) {
        if (entry.path().extension() == ".md") {
            out.push_back(entry.path());
        }
    }
    return out;
}

void report(const std::filesystem::path& path, const text_lines& faults) {
    for (const std::string& fault : faults) {
        FAIL_CHECK(path.lexically_relative(root).string() << ": " << fault);
    }
}

}  // namespace

TEST_CASE("documents show the code and the outputs that exist, and link to files that exist") {
    std::size_t checked = 0;
    for (const std::filesystem::path& path : documents()) {
        const text_lines text = lines_of_file(path);
        CHECK_MESSAGE(!text.empty(), path.string());
        const document doc = parse(text);
        report(path, faults_of(doc, root, path.parent_path()));
        checked += doc.links.size() + doc.blocks.size();
    }
    CHECK(checked >= 10);
}

TEST_CASE("a document in two languages shows the same blocks in the same order") {
    std::size_t pairs = 0;
    for (const std::filesystem::path& path : documents()) {
        if (path.stem().extension() != ".zh") {
            continue;
        }
        const std::filesystem::path original = path.parent_path() / (path.stem().stem().string() + ".md");
        const document doc = parse(lines_of_file(original));
        CHECK_MESSAGE(!doc.blocks.empty(), original.string());
        report(path, differences(doc, parse(lines_of_file(path))));
        ++pairs;
    }
    CHECK(pairs >= 1);
}

TEST_CASE("the walkthrough copies no code and no output by hand") {
    const std::filesystem::path path = root / "docs" / "walkthrough.md";
    for (const block& shown : parse(lines_of_file(path)).blocks) {
        if ((shown.language == "cpp" || shown.language == "text") && shown.marker.empty()) {
            report(path, {"line " + std::to_string(shown.line) + ": a block without a marker"});
        }
    }
}
