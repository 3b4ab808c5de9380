# nvcc, and programs that it compiles. CUDA is switched on by DFLASH_CUDA (the preset cuda) and by nothing else.
#
#   DFLASH_NVCC                nvcc, or not found: CUDACXX, PATH, then where the toolkit installs itself
#   dflash_enable_cuda()       makes CMake know CUDA, for CMAKE_CUDA_ARCHITECTURES (default 90). To be called in the
#                              project's own folder.
#   dflash_add_cuda_program(<name> SOURCES <files> [LIBRARIES <targets>])
#                              one program with the exact backend's flags (backends/cuda/nvcc_flags.txt)
find_program(DFLASH_NVCC NAMES "$ENV{CUDACXX}" nvcc PATHS /usr/local/cuda/bin DOC "The CUDA compiler")
mark_as_advanced(DFLASH_NVCC)

set(flags_file "${PROJECT_SOURCE_DIR}/backends/cuda/nvcc_flags.txt")
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${flags_file}")
file(STRINGS "${flags_file}" DFLASH_NVCC_FLAGS REGEX "^-")

macro(dflash_enable_cuda)
  if(NOT DFLASH_NVCC)
    message(FATAL_ERROR "DFLASH_CUDA is ON, but nvcc was not found in CUDACXX, in PATH or in /usr/local/cuda/bin. "
                        "Install the CUDA toolkit, or configure with -DDFLASH_CUDA=OFF.")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${DFLASH_NVCC}")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "Architectures that CUDA programs are compiled for")
  endif()
  enable_language(CUDA)
endmacro()

function(dflash_add_cuda_program name)
  cmake_parse_arguments(program "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${program_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/backends/cuda/include")
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${DFLASH_NVCC_FLAGS}>")
  target_link_libraries(${name} PRIVATE dflash::dflash ${program_LIBRARIES})
endfunction()
