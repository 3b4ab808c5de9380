// A document as the checks see it: headings, links, and fenced blocks with the marker that says where a block is cut
// from.
//
//   <!-- region: FILE NAME -->   a cpp block: what stands between the lines "// [NAME]" and "// [/NAME]" of FILE,
//   without
//                                that marker's indentation and without the lines of other markers
//   <!-- lines: FILE -->         a cpp or text block: some whole lines of FILE, in one piece
//
// FILE is named from the root of the project. A marker is a line of its own right above the block, and the only kind of
// comment a document may have, so that a misspelt one cannot leave its block unchecked.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace dflash_test {

using text_lines = std::vector<std::string>;

struct block {
    std::size_t line = 0;  // of the opening fence
    std::string language;
    std::string marker;  // "region", "lines", or empty
    std::string file;
    std::string region;
    text_lines lines;
};

struct document {
    std::vector<std::size_t> headings;  // their levels
    text_lines links;                   // targets, outside blocks
    std::vector<block> blocks;
    text_lines faults;  // of form
};

inline text_lines lines_of(const std::string& text) {
    text_lines out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        out.push_back(line);
    }
    return out;
}

/// Empty when there is no such file.
inline text_lines lines_of_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return lines_of({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
}

inline std::string without_indentation(const std::string& line) {
    return line.substr((std::min)(line.find_first_not_of(' '), line.size()));
}

inline document parse(const text_lines& text) {
    static const std::regex region(R"(<!-- region: (\S+) (\S+) -->)");
    static const std::regex piece(R"(<!-- lines: (\S+) -->)");
    static const std::regex link(R"(\]\(([^)\s]+)\))");
    static const std::regex code_span("`[^`]*`");
    document out;
    block marked;  // what the marker just read says of the block to come
    bool inside = false;
    const auto fault = [&out](std::size_t at, const std::string& what) {
        out.faults.push_back("line " + std::to_string(at + 1) + ": " + what);
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string& line = text[i];
        if (inside) {
            inside = without_indentation(line) != "```";
            if (inside) {
                out.blocks.back().lines.push_back(line);
            }
            continue;
        }
        if (without_indentation(line).starts_with("```")) {
            inside = true;
            marked.line = i + 1;
            marked.language = without_indentation(line).substr(3);
            out.blocks.push_back(std::exchange(marked, {}));
            continue;
        }
        if (!marked.marker.empty()) {
            fault(i, "a block must follow right after its marker");
            marked = {};
        }
        std::smatch part;
        if (line.find("<!--") == std::string::npos) {
            if (line.starts_with('#')) {
                out.headings.push_back(line.find_first_not_of('#'));
            }
            const std::string prose = std::regex_replace(line, code_span, "");
            for (std::sregex_iterator at(prose.begin(), prose.end(), link); at != std::sregex_iterator(); ++at) {
                out.links.push_back((*at)[1].str());
            }
        } else if (std::regex_match(line, part, region)) {
            marked.marker = "region";
            marked.file = part[1].str();
            marked.region = part[2].str();
        } else if (std::regex_match(line, part, piece)) {
            marked.marker = "lines";
            marked.file = part[1].str();
        } else {
            fault(i, "not a marker: " + line);
        }
    }
    if (inside || !marked.marker.empty()) {
        fault(text.size(), "the last block is not closed");
    }
    return out;
}

/// What stands between the markers of a region. `fault` says why there is nothing to show.
inline text_lines region_of(const text_lines& source, const std::string& name, std::string& fault) {
    static const std::regex any_marker(R"( *// \[/?[a-z][a-z0-9_-]*\])");
    const auto find = [&source](const std::string& marker, std::vector<std::size_t>& at) {
        for (std::size_t i = 0; i < source.size(); ++i) {
            if (without_indentation(source[i]) == marker) {
                at.push_back(i);
            }
        }
    };
    std::vector<std::size_t> begin;
    std::vector<std::size_t> end;
    find("// [" + name + "]", begin);
    find("// [/" + name + "]", end);
    if (begin.size() != 1 || end.size() != 1 || end[0] <= begin[0] + 1) {
        fault = "has no region [" + name + "] with one beginning, one end and lines between them";
        return {};
    }
    const std::size_t indentation = source[begin[0]].find('/');
    text_lines out;
    for (std::size_t i = begin[0] + 1; i < end[0]; ++i) {
        if (!std::regex_match(source[i], any_marker)) {
            const bool deep = source[i].find_first_not_of(' ') >= indentation && source[i].size() > indentation;
            out.push_back(deep ? source[i].substr(indentation) : without_indentation(source[i]));
        }
    }
    return out;
}

/// Everything that is wrong with a document that stands in `folder`.
inline text_lines faults_of(const document& doc, const std::filesystem::path& root,
                            const std::filesystem::path& folder) {
    text_lines out = doc.faults;
    for (const block& shown : doc.blocks) {
        const auto fault = [&](const std::string& what) {
            out.push_back("line " + std::to_string(shown.line) + ": " + what);
        };
        if (shown.marker.empty()) {
            continue;
        }
        const text_lines source = lines_of_file(root / shown.file);
        if (source.empty()) {
            fault("there is no file " + shown.file);
        } else if (shown.language != "cpp" && (shown.language != "text" || shown.marker == "region")) {
            fault("a block of kind \"" + shown.language + "\" under a marker for another kind");
        } else if (shown.lines.empty()) {
            fault("the block is empty");
        } else if (shown.marker == "region") {
            std::string missing;
            const text_lines wanted = region_of(source, shown.region, missing);
            if (!missing.empty()) {
                fault(shown.file + " " + missing);
            } else if (shown.lines != wanted) {
                fault("the block is not the region [" + shown.region + "] of " + shown.file);
            }
        } else if (std::search(source.begin(), source.end(), shown.lines.begin(), shown.lines.end()) == source.end()) {
            fault("the block is no piece of " + shown.file);
        }
    }
    for (const std::string& link : doc.links) {
        const std::string target = link.substr(0, link.find('#'));
        if (link.find("://") == std::string::npos && !target.empty() && !std::filesystem::exists(folder / target)) {
            out.push_back("a link to nothing: " + link);
        }
    }
    return out;
}

/// What keeps two documents from being one in two languages: headings, blocks and their order.
inline text_lines differences(const document& a, const document& b) {
    text_lines out;
    if (a.headings != b.headings) {
        out.push_back("the headings differ in number or level");
    }
    if (a.blocks.size() != b.blocks.size()) {
        out.push_back(std::to_string(a.blocks.size()) + " blocks beside " + std::to_string(b.blocks.size()));
    }
    for (std::size_t i = 0; i < (std::min)(a.blocks.size(), b.blocks.size()); ++i) {
        const block& x = a.blocks[i];
        const block& y = b.blocks[i];
        if (x.language != y.language || x.marker != y.marker || x.file != y.file || x.region != y.region ||
            x.lines != y.lines) {
            out.push_back("the blocks at lines " + std::to_string(x.line) + " and " + std::to_string(y.line) +
                          " differ");
        }
    }
    return out;
}

}  // namespace dflash_test
