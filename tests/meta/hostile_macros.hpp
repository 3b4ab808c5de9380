// The macros that <windows.h> and old system headers define. The standard headers come first, because those break too.
#pragma once

#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
#if defined(DFLASH_TEST_WITH_DEPENDENCIES)
#if defined(_OPENMP)
#include <omp.h>
#endif
#include <Eigen/Core>
#include <nlohmann/json.hpp>
#include <xsimd/xsimd.hpp>
#endif

// NOLINTBEGIN
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#define near
#define far
#define interface struct
#define ERROR 0
#define OPTIONAL
#define IN
#define OUT
#define TRUE 1
#define FALSE 0
#define I _Complex_I
#define major(x) x
#define minor(x) x
// NOLINTEND
