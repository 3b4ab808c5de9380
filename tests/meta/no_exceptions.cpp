// A program without exceptions and without run-time types: it must compile, run, and hear of errors by the handler.
#include <cstdio>
#include <cstdlib>

#include <all_core_headers.hpp>

namespace {

void leave_with_success(const dflash::error&) {
    std::exit(0);
}

}  // namespace

int main() {
    float numbers[4] = {1.0F, 2.0F, 3.0F, 4.0F};
    const dflash::matrix_view<float> view(numbers, 2, 2);
    if (!(view.row(1)[0] == 3.0F)) {
        return 1;
    }
    dflash::set_failure_handler(leave_with_success);
    dflash::raise<dflash::config_error>("block_size: got ", 0, ", needs at least ", 1);
}
