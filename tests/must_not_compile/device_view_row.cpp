// A view of device memory has no rows that the CPU could read.
// expect: row
// expect: host_space
#include <dflash/vocabulary.hpp>

struct device_space {};

#if defined(DFLASH_CONTROL)
using space = dflash::host_space;
#else
using space = device_space;
#endif

float first(dflash::matrix_view<const float, space> view) {
    return view.row(0)[0];
}
