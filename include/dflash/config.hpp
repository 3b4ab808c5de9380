// Every macro of the library, the refusal of flags that break the arithmetic, and the ABI tag.
//
// The exact path promises the same bits on every machine, so the build is checked here, once, for the flags that
// would silently break the promise. Nothing in this header depends on anything else.
#pragma once

#include <cfloat>

#include <dflash/version.hpp>

#if !defined(__cplusplus) || (__cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L))
#error "dflash needs C++20: compile with -std=c++20 or newer."
#endif

// ---- flags that change results -------------------------------------------------------------------------------------
#if defined(__FAST_MATH__)
#error "dflash refuses -ffast-math (and -Ofast): it reorders sums and drops NaN checks, so results would not be exact."
#endif
#if defined(__ASSOCIATIVE_MATH__)
#error "dflash refuses -fassociative-math: it reorders sums, so results would not be exact."
#endif
#if defined(__RECIPROCAL_MATH__)
#error "dflash refuses -freciprocal-math: it replaces correctly rounded divisions, so results would not be exact."
#endif
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0
#error "dflash refuses -ffinite-math-only: it removes the checks for NaN and infinity."
#endif
#if defined(__NO_SIGNED_ZEROS__)
#error "dflash refuses -fno-signed-zeros: sums begin with +0, which it drops, so -0 would come out where +0 is right."
#endif
#if defined(_M_FP_FAST)
#error "dflash refuses /fp:fast: it reorders sums and drops NaN checks, so results would not be exact."
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "dflash needs FLT_EVAL_METHOD == 0: float expressions must round to float (32-bit x86: -msse2 -mfpmath=sse)."
#endif
#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128 || DBL_MANT_DIG != 53
#error "dflash needs IEEE-754 binary32 float and binary64 double."
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dflash supports little-endian machines only: checkpoints are little endian and are read in place."
#endif

// ---- switches a user may set ---------------------------------------------------------------------------------------
// DFLASH_CHECKED = 1: preconditions are tested and raise contract_error. Default: on unless NDEBUG is defined.
#if !defined(DFLASH_CHECKED)
#if defined(NDEBUG)
#define DFLASH_CHECKED 0
#else
#define DFLASH_CHECKED 1
#endif
#endif

// ---- facts about the build -----------------------------------------------------------------------------------------
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define DFLASH_HAS_EXCEPTIONS 1
#else
#define DFLASH_HAS_EXCEPTIONS 0
#endif

// Functions that CPU and GPU code share.
#if defined(__CUDACC__)
#define DFLASH_HD __host__ __device__
#else
#define DFLASH_HD
#endif

// Functions of the way out: never inlined, compiled for size.
#if defined(__GNUC__) && !defined(__CUDACC__)
#define DFLASH_COLD __attribute__((cold, noinline))
#else
#define DFLASH_COLD
#endif

// ---- the ABI tag ---------------------------------------------------------------------------------------------------
// Inline functions compiled under different flags are different functions. The tag in the inline namespace gives them
// different names, so that two object files built with different -m flags never share a symbol.
#if defined(__AVX512BF16__)
#define DFLASH_DETAIL_ISA avx512bf16
#elif defined(__AVX512F__)
#define DFLASH_DETAIL_ISA avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define DFLASH_DETAIL_ISA avx2fma
#elif defined(__FMA__)
#define DFLASH_DETAIL_ISA fma
#elif defined(__AVX__)
#define DFLASH_DETAIL_ISA avx
#elif defined(__SSE4_1__)
#define DFLASH_DETAIL_ISA sse41
#elif defined(__aarch64__)
#define DFLASH_DETAIL_ISA neon
#else
#define DFLASH_DETAIL_ISA base
#endif

#if defined(_OPENMP)
#define DFLASH_DETAIL_OMP omp
#else
#define DFLASH_DETAIL_OMP seq
#endif

#if DFLASH_CHECKED
#define DFLASH_DETAIL_CHECKED checked
#else
#define DFLASH_DETAIL_CHECKED fast
#endif

#if DFLASH_HAS_EXCEPTIONS
#define DFLASH_DETAIL_EXC exc
#else
#define DFLASH_DETAIL_EXC noexc
#endif

#define DFLASH_DETAIL_GLUE_(major, minor, isa, omp, checked, exc) v##major##_##minor##_##isa##_##omp##_##checked##_##exc
#define DFLASH_DETAIL_GLUE(major, minor, isa, omp, checked, exc) \
    DFLASH_DETAIL_GLUE_(major, minor, isa, omp, checked, exc)
#define DFLASH_ABI                                                                                       \
    DFLASH_DETAIL_GLUE(DFLASH_VERSION_MAJOR, DFLASH_VERSION_MINOR, DFLASH_DETAIL_ISA, DFLASH_DETAIL_OMP, \
                       DFLASH_DETAIL_CHECKED, DFLASH_DETAIL_EXC)

#define DFLASH_BEGIN_NAMESPACE \
    namespace dflash {         \
    inline namespace DFLASH_ABI {
#define DFLASH_END_NAMESPACE \
    }                        \
    }
