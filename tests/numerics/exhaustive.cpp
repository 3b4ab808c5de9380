// Sweeps exp, log, log1p and tanh over every float of their domains: largest error in ulps, and any descent.
// The numbers in the headers' comments come from here. Exit status 1 when a function is not monotone.
#include <cstdio>
#include <cstdlib>

#include "numerics/sweeps.hpp"

namespace {

bool report(const char* name, const numerics_test::sweep_result& r) {
    std::printf("%-6s %11ld floats, worst %.4f ulp at %a, %ld descents", name, r.count, r.worst,
                static_cast<double>(r.worst_at), r.descents);
    if (r.descents != 0) {
        std::printf(" (the last at %a)", static_cast<double>(r.descent_at));
    }
    std::printf("\n");
    std::fflush(stdout);
    return r.descents == 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::int64_t stride = argc > 1 ? std::atoll(argv[1]) : 1;
    bool good = report("exp", numerics_test::sweep_exp(stride));
    good = report("log", numerics_test::sweep_log(stride)) && good;
    good = report("log1p", numerics_test::sweep_log1p(stride)) && good;
    good = report("tanh", numerics_test::sweep_tanh(stride)) && good;
    return good ? 0 : 1;
}
