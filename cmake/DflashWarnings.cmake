# The warnings our own tests, examples and benchmarks are compiled with. Private: never installed, never a user's.
add_library(dflash_warnings INTERFACE)
add_library(dflash::warnings ALIAS dflash_warnings)
set(DFLASH_WARNING_FLAGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Werror)
target_compile_options(dflash_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${DFLASH_WARNING_FLAGS}>")
