// Every public header in one translation unit. Built twice and linked, it shows that nothing is defined twice.
// Compiled with -fkeep-inline-functions where the compiler has it, so that each function has a body and an address.
#include <all_headers.hpp>

#if !defined(DFLASH_TEST_NAME)
#define DFLASH_TEST_NAME first_part
#endif

#if defined(_WIN32)
#define DFLASH_TEST_EXPORT __declspec(dllexport)
#else
#define DFLASH_TEST_EXPORT __attribute__((visibility("default")))
#endif

DFLASH_TEST_EXPORT void DFLASH_TEST_NAME(int fail);

/// Raises an error that another part of the program must be able to catch by its type.
DFLASH_TEST_EXPORT void DFLASH_TEST_NAME(int fail) {
    float numbers[4] = {};
    const dflash::matrix_view<float> view(numbers, 2, 2);
    if (fail != 0) {
        dflash::raise<dflash::config_error>("block_size: got ", view.rows(), ", needs more");
    }
}
