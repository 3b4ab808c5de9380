// A section of the check in a process of its own: what it crashes on, or hangs in, takes nothing else along.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace device_check {

/// What became of a section.
struct section_result {
    std::string name;
    std::string status;  ///< "ok", or what went wrong
    double seconds = 0;
    std::vector<std::string> lines;  ///< of its report, one JSON object each
};

/// Runs this program again as `command` with `--lines FILE` behind it, and ends it after so many seconds.
inline section_result run_apart(const std::string& name, std::vector<std::string> command, double limit,
                                const char* program = "/proc/self/exe") {
    section_result found{name, "could not be started", 0, {}};
    std::string lines = (std::filesystem::temp_directory_path() / "cuda-device-check-XXXXXX").string();
    const int file = mkstemp(lines.data());
    if (file < 0) {
        return found;
    }
    close(file);
    command.insert(command.end(), {"--lines", lines});
    std::vector<char*> arguments;
    for (std::string& argument : command) {
        arguments.push_back(argument.data());
    }
    arguments.push_back(nullptr);

    const auto start = std::chrono::steady_clock::now();
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        execv(program, arguments.data());
        _exit(127);
    }
    int status = -1;
    bool too_long = false;
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (!too_long && found.seconds > limit) {
            too_long = true;
            kill(child, SIGKILL);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (child > 0) {
        found.status = too_long                   ? "ended: it took too long"
                       : WIFSIGNALED(status)      ? "ended by signal " + std::to_string(WTERMSIG(status))
                       : WEXITSTATUS(status) == 0 ? "ok"
                       : WEXITSTATUS(status) == 1 ? "not all equal, or not all done"
                                                  : "exit status " + std::to_string(WEXITSTATUS(status));
    }
    std::ifstream from(lines);
    for (std::string line; std::getline(from, line) && !from.eof();) {  // a last line that was cut is left out
        found.lines.push_back(line);
    }
    std::remove(lines.c_str());
    return found;
}

}  // namespace device_check
