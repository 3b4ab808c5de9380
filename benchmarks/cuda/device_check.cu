// cuda-device-check: what only a device can show of the CUDA backend, in one run of under four minutes.
//
//   exactness   every operation against the scalar specification
//   loop        whole generations against the CPU backend
//   speed       ceilings of the device, then each kernel as a share of them
//   step        a forward of the shape of Qwen3-4B: one row against sixteen
//
// Each section is a process of its own with a time limit, so that one that fails or hangs takes nothing else along.
// As plain C++ (the simulator) there are the first two only.
//
// Status 0: all that was compared is equal, nothing failed and nothing was left out; 1 otherwise; 2: usage;
// 3: no device.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "device_check/exactness.hpp"
#include "device_check/loop.hpp"
#include "device_check/run_apart.hpp"
#if defined(__CUDACC__)
#include "device_check/speed.hpp"
#include "device_check/step.hpp"
#endif

namespace device_check {
namespace {

struct options {
    std::string json;
    std::string only;
    std::string lines;  // of a section's own process
    bool quick = false;
    double patience = 1;
    std::vector<pair_folders> folders;
};

struct section {
    const char* name;
    double seconds;  // after which it begins nothing new; somewhat later it is ended
    void (*run)(report& out, const options& given);
};

const section sections[] = {
    {"exactness", 75, [](report& out, const options& given) { check_exactness(out, given.quick); }},
    {"loop", 45, [](report& out, const options& given) { check_loop(out, given.quick, given.folders); }},
#if defined(__CUDACC__)
    {"speed", 45, [](report& out, const options& /*given*/) { measure_speed(out); }},
    {"step", 35, [](report& out, const options& /*given*/) { measure_step(out); }},
#endif
};
constexpr double grace_seconds = 8;

constexpr const char* usage =
    "usage: cuda-device-check [--json FILE] [--quick] [--only SECTION] [--patience F] [--target DIR --draft DIR]...\n"
    "  --json FILE    write what was found; default: $OUT/report.json where OUT is set\n"
    "  --quick        small shapes only\n"
    "  --only NAME    one section, in this process: exactness, loop, speed or step\n"
    "  --patience F   multiplies the time limits of the sections\n"
    "  --target, --draft   a pair whose generations are compared; may be repeated\n";

/// Exits with status 2 for arguments that make no sense.
options parse(int argc, char** argv) {
    options given;
    if (const char* out = std::getenv("OUT")) {
        given.json = std::string(out) + "/report.json";
    }
    const auto refuse = [](const std::string& why) {
        std::fprintf(stderr, "cuda-device-check: error: %s\n%s", why.c_str(), usage);
        std::exit(2);
    };
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--quick") {
            given.quick = true;
            continue;
        }
        if (option == "--help") {
            std::printf("%s", usage);
            std::exit(0);
        }
        if (i + 1 == argc) {
            refuse(std::string(option) + ": unknown, or its value is missing");
        }
        const char* value = argv[++i];
        if (option == "--json") {
            given.json = value;
        } else if (option == "--only") {
            given.only = value;
        } else if (option == "--patience" && std::atof(value) > 0) {
            given.patience = std::atof(value);
        } else if (option == "--lines") {
            given.lines = value;
        } else if (option == "--target") {
            given.folders.push_back({value, {}});
        } else if (option == "--draft" && !given.folders.empty() && given.folders.back().draft.empty()) {
            given.folders.back().draft = value;
        } else {
            refuse(std::string(option) + ": unknown, or its value makes no sense");
        }
    }
    for (const pair_folders& pair : given.folders) {
        if (pair.draft.empty()) {
            refuse("--target " + pair.target + ": needs --draft");
        }
    }
    return given;
}

/// One section in this process. Returns the exit status.
int run_here(const section& what, const options& given) {
    report out(given.lines, what.seconds * given.patience);
    try {
        what.run(out, given);
    } catch (const std::exception& failure) {
        out.note(what.name, std::string("failed: ") + failure.what());
        return 1;
    }
    return out.holds() && out.complete() ? 0 : 1;
}

/// Whether it could be written.
bool write_json(const std::string& path, const std::vector<section_result>& results, bool good) {
    std::ofstream out(path);
    out << "{\n \"good\": " << (good ? "true" : "false") << ",\n \"sections\": [";
    for (std::size_t i = 0; i < results.size(); ++i) {
        const section_result& r = results[i];
        out << (i == 0 ? "\n" : ",\n") << "  {\"name\": " << in_json(r.name) << ", \"status\": " << in_json(r.status)
            << ", \"seconds\": " << in_json(r.seconds) << ", \"rows\": [";
        for (std::size_t l = 0; l < r.lines.size(); ++l) {
            out << (l == 0 ? "\n   " : ",\n   ") << r.lines[l];
        }
        out << "]}";
    }
    out << "]\n}\n";
    out.close();
    return !out.fail();
}

int run(int argc, char** argv) {
    const options given = parse(argc, argv);
    if (cuda::runtime::device_count() == 0) {
        std::fprintf(stderr, "cuda-device-check: error: cuda: no device was found\n");
        return 3;
    }
    if (!given.only.empty()) {
        for (const section& s : sections) {
            if (given.only == s.name) {
                return run_here(s, given);
            }
        }
        std::fprintf(stderr, "cuda-device-check: error: --only: got %s, which is no section\n", given.only.c_str());
        return 2;
    }
    std::vector<section_result> results;
    bool good = true;
    for (const section& s : sections) {
        std::printf("%s\n", s.name);
        std::vector<std::string> command(argv, argv + argc);
        command.insert(command.end(), {"--only", s.name});
        results.push_back(run_apart(s.name, command, s.seconds * given.patience + grace_seconds));
        std::printf("  %s: %s, %.1f s\n\n", s.name, results.back().status.c_str(), results.back().seconds);
        good = good && results.back().status == "ok";
        if (!given.json.empty() && !write_json(given.json, results, good)) {
            std::fprintf(stderr, "cuda-device-check: error: %s: cannot write\n", given.json.c_str());
            good = false;
        }
    }
    std::printf("%s\n", good ? "all equal" : "NOT all equal, or not all done");
    return good ? 0 : 1;
}

}  // namespace
}  // namespace device_check

int main(int argc, char** argv) {
    return device_check::run(argc, argv);
}
