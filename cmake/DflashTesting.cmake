# dflash_add_test(<name> SOURCES <files> [LIBRARIES <targets>] [TIMEOUT <seconds>] [THREADED])
#
# One doctest executable with the shared main, registered with ctest under its name. Preconditions are checked
# (DFLASH_CHECKED), warnings are errors, and the data folders are known as DFLASH_TEST_DATA and DFLASH_MODELS.
# THREADED: these tests use threads, so `./run check tsan` runs them under the thread sanitizer as well.
find_package(doctest QUIET)
if(NOT TARGET doctest::doctest)
  message(FATAL_ERROR "The tests need doctest, which was not found. On Debian: apt-get install doctest-dev "
                      "(or configure with -DDFLASH_BUILD_TESTS=OFF)")
endif()

add_library(dflash_doctest_main OBJECT "${PROJECT_SOURCE_DIR}/tests/support/doctest_main.cpp")
target_link_libraries(dflash_doctest_main PUBLIC doctest::doctest)
target_compile_features(dflash_doctest_main PUBLIC cxx_std_20)
add_custom_target(threaded_tests)

# The exact backend's kernels are compiled once and shared by the tests that use it: see dflash/cpu/kernels.hpp.
add_library(dflash_test_kernels OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/support/cpu_kernels.cpp")
target_link_libraries(dflash_test_kernels PUBLIC dflash::cpu)
target_link_libraries(dflash_test_kernels PRIVATE dflash::warnings)
target_compile_definitions(dflash_test_kernels PUBLIC DFLASH_CPU_SEPARATE_KERNELS DFLASH_CHECKED=1)

function(dflash_add_test name)
  cmake_parse_arguments(test "THREADED" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 600)
  endif()
  add_executable(${name} ${test_SOURCES})
  if("dflash::cpu" IN_LIST test_LIBRARIES)
    target_link_libraries(${name} PRIVATE dflash_test_kernels)
  endif()
  # Tests are compiled more often than run; the kernels, where time is spent, keep the optimisation of the build.
  target_compile_options(${name} PRIVATE -O1)
  target_link_libraries(${name} PRIVATE dflash_doctest_main dflash::dflash ${test_LIBRARIES} dflash::warnings)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE DFLASH_CHECKED=1
                                             DFLASH_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/golden"
                                             DFLASH_MODELS="${PROJECT_SOURCE_DIR}/examples/models")
  add_test(NAME ${name} COMMAND ${name})
  # Waiting threads sleep: tests run side by side, and spinning ones would take the cores from each other.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/tests"
                                          ENVIRONMENT "OMP_WAIT_POLICY=passive")
  if(test_THREADED)
    add_dependencies(threaded_tests ${name})
    set_tests_properties(${name} PROPERTIES LABELS threaded)
  endif()
endfunction()
