# What the header checks need to know: the public headers, the compilers at hand, and the flags of each.
#
# Headers are found by globbing, so that a new one is checked without being listed anywhere.

# ---- headers, as users spell them ------------------------------------------------------------------------------------
function(dflash_public_headers variable root)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE "${root}" "${root}/*.hpp")
  list(SORT found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

dflash_public_headers(headers "${PROJECT_SOURCE_DIR}/include")
set(DFLASH_CORE_HEADERS ${headers})
list(FILTER DFLASH_CORE_HEADERS EXCLUDE REGEX "^dflash/(io|interop|front)/")
set(DFLASH_OTHER_HEADERS ${headers})
list(FILTER DFLASH_OTHER_HEADERS INCLUDE REGEX "^dflash/(io|interop|front)/")
dflash_public_headers(headers "${PROJECT_SOURCE_DIR}/backends/cpu/include")
list(APPEND DFLASH_OTHER_HEADERS ${headers})
if(EXISTS "${PROJECT_SOURCE_DIR}/backends/cpu/include/dflash/cpu/exact.hpp")
  list(APPEND DFLASH_OTHER_HEADERS dflash/default_backend.hpp)
endif()

# ---- flags -----------------------------------------------------------------------------------------------------------
set(DFLASH_CORE_FLAGS "-I${PROJECT_SOURCE_DIR}/include")
set(DFLASH_ALL_FLAGS "${DFLASH_CORE_FLAGS}" "-I${PROJECT_SOURCE_DIR}/backends/cpu/include"
                     "-I${PROJECT_SOURCE_DIR}/backends/default/cpu")
foreach(target Eigen3::Eigen nlohmann_json::nlohmann_json dflash::xsimd)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  foreach(folder IN LISTS folders)
    if(folder AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES AND NOT folder MATCHES "^\\$")
      list(APPEND DFLASH_ALL_FLAGS "-isystem${folder}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES DFLASH_ALL_FLAGS)
list(JOIN DFLASH_WARNING_FLAGS " " DFLASH_WARNINGS_TEXT)

# ---- compilers: the one of this build, and g++ and clang++ where they are --------------------------------------------
find_program(DFLASH_GXX g++)
find_program(DFLASH_CLANGXX NAMES clang++ clang++-14)
mark_as_advanced(DFLASH_GXX DFLASH_CLANGXX)
set(DFLASH_COMPILERS "${CMAKE_CXX_COMPILER}")
if(DFLASH_GXX AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND DFLASH_COMPILERS "${DFLASH_GXX}")
endif()
if(DFLASH_CLANGXX AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND DFLASH_COMPILERS "${DFLASH_CLANGXX}")
endif()

# Lists of compilers with their dialects, one command a line, from the thorough to the quick. C++23 is spelt c++2b because
# that is what older compilers know.
set(every_dialect "")
set(each_compiler "")
foreach(compiler IN LISTS DFLASH_COMPILERS)
  list(APPEND every_dialect "${compiler} -std=c++20" "${compiler} -std=c++2b")
  list(APPEND each_compiler "${compiler} -std=c++20")
endforeach()
set(each_library "${each_compiler}")
if(DFLASH_CLANGXX)
  execute_process(COMMAND "${DFLASH_CLANGXX}" -std=c++20 -stdlib=libc++ -fsyntax-only -x c++ -include version /dev/null
                  RESULT_VARIABLE without_libcxx OUTPUT_QUIET ERROR_QUIET)
  if(NOT without_libcxx)
    list(APPEND every_dialect "${DFLASH_CLANGXX} -std=c++20 -stdlib=libc++")
    set(each_library "${CMAKE_CXX_COMPILER} -std=c++20" "${DFLASH_CLANGXX} -std=c++2b -stdlib=libc++")
  endif()
endif()
foreach(dialects every_dialect each_library each_compiler)
  list(JOIN ${dialects} "\n" lines)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/tests/${dialects}.txt" CONTENT "${lines}\n")
endforeach()

# ---- every header in one file, forwards and backwards ----------------------------------------------------------------
function(dflash_write_includes file)
  list(TRANSFORM ARGN PREPEND "#include <")
  list(TRANSFORM ARGN APPEND ">")
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT "${file}" CONTENT "${lines}\n")
endfunction()

set(DFLASH_GENERATED "${PROJECT_BINARY_DIR}/tests/generated")
set(headers ${DFLASH_CORE_HEADERS} ${DFLASH_OTHER_HEADERS})
dflash_write_includes("${DFLASH_GENERATED}/all_headers.hpp" ${headers})
dflash_write_includes("${DFLASH_GENERATED}/all_core_headers.hpp" ${DFLASH_CORE_HEADERS})
list(REVERSE headers)
dflash_write_includes("${DFLASH_GENERATED}/all_headers_reversed.hpp" ${headers})

# dflash_manners_test(<name> <list of dialects> <command...>): how the headers behave, not what they compute.
function(dflash_manners_test name dialects)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS manners TIMEOUT 1800
                       ENVIRONMENT "WARNINGS=${DFLASH_WARNINGS_TEXT};DIALECTS=${PROJECT_BINARY_DIR}/tests/${dialects}.txt")
endfunction()
