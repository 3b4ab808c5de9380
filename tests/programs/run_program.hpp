// Runs a program as a shell would, and on a terminal of its own, and catches what it writes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temp_folder.hpp"

namespace dflash_test {

struct outcome {
    int status = -1;
    std::string out;
    std::string err;
};

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error("cannot read " + path.string());
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string in_quotes(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return out + "'";
}

using arguments = std::vector<std::string>;

inline std::string command_line(const std::string& program, const arguments& given) {
    std::string line = in_quotes(program);
    for (const std::string& argument : given) {
        line += ' ';
        line += in_quotes(argument);
    }
    return line;
}

/// Runs a line of bash.
inline outcome run_line(const std::string& line, const std::string& input = {}) {
    const temp_folder folder;
    const std::string in = folder.write("in", input).string();
    const std::string out = (folder.path() / "out").string();
    const std::string err = (folder.path() / "err").string();
    const std::string all =
        "bash -c " + in_quotes(line) + " <" + in_quotes(in) + " >" + in_quotes(out) + " 2>" + in_quotes(err);
    const int status = std::system(all.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out), read_file(err)};
}

inline outcome run(const std::string& program, const arguments& given, const std::string& input = {}) {
    return run_line(command_line(program, given), input);
}

/// Runs a line of bash with standard output on a terminal; `out` has what a screen would get.
inline outcome run_on_terminal(const std::string& line) {
    int screen = -1;
    const pid_t child = forkpty(&screen, nullptr, nullptr, nullptr);
    if (child < 0) {
        throw std::runtime_error("no terminal could be opened");
    }
    if (child == 0) {
        execl("/bin/bash", "bash", "-c", line.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    outcome result;
    char chunk[4096];
    for (ssize_t got = read(screen, chunk, sizeof(chunk)); got > 0; got = read(screen, chunk, sizeof(chunk))) {
        result.out.append(chunk, static_cast<std::size_t>(got));
    }
    int status = 0;
    waitpid(child, &status, 0);
    close(screen);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

inline bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// Whether this is what a refusal looks like: status 2, nothing on standard output, one line on standard error.
inline bool refused(const outcome& result, const std::string& program, std::string_view reason) {
    const std::string start = program + ": error: ";
    return result.status == 2 && result.out.empty() && result.err.starts_with(start) &&
           result.err.find('\n') == result.err.size() - 1 && contains(result.err, reason);
}

}  // namespace dflash_test
