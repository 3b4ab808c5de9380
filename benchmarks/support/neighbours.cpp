#include "support/neighbours.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

namespace dflash::bench {

namespace {

double tick() {
    return 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Processor seconds of another process; 0 when it is gone.
double seconds_of_process(const std::string& id) {
    std::ifstream file("/proc/" + id + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) {
        return 0;
    }
    std::size_t at = name_end + 1;
    double ticks = 0;
    for (int field = 3; field <= 15; ++field) {  // utime and stime are fields 14 and 15
        at = line.find(' ', at) + 1;
        if (field >= 14) {
            ticks += std::stod(line.substr(at));
        }
    }
    return ticks * tick();
}

double seconds_of_children() {
    double sum = 0;
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
        std::ifstream file(task.path() / "children");
        std::string id;
        while (file >> id) {
            sum += seconds_of_process(id);
        }
    }
    return sum;
}

}  // namespace

neighbours::neighbours(double patience) : patience_(patience), last_(now()) {}

neighbours::sample neighbours::now() {
    sample s;
    s.wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    std::ifstream file("/proc/stat");
    std::string word;
    file >> word;
    double ticks[8] = {};  // user, nice, system, idle, iowait, irq, softirq, steal
    for (double& value : ticks) {
        file >> value;
    }
    s.busy = tick() * (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]);
    rusage own = {};
    getrusage(RUSAGE_SELF, &own);
    s.own = static_cast<double>(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
            1e-6 * static_cast<double>(own.ru_utime.tv_usec + own.ru_stime.tv_usec) + seconds_of_children();
    return s;
}

double neighbours::share() {
    const sample s = now();
    const double others = (s.busy - last_.busy) - (s.own - last_.own);
    const double all = (s.wall - last_.wall) * static_cast<double>((std::max)(1U, std::thread::hardware_concurrency()));
    last_ = s;
    return all > 0 ? std::clamp(others / all, 0.0, 1.0) : 0;
}

void neighbours::wait() {
    constexpr double interval = 0.1;
    static_cast<void>(share());
    while (patience_ > 0) {
        std::this_thread::sleep_for(std::chrono::duration<double>(interval));
        if (share() < quiet) {
            return;
        }
        patience_ -= interval;
    }
}

}  // namespace dflash::bench
