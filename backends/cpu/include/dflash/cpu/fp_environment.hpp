// The floating-point environment that the arithmetic relies on, for the length of a scope.
//
// A shared library built with fast-math can switch flush-to-zero on for threads it never heard of. Every thread that
// computes therefore sets rounding to nearest even and full subnormals first, and puts back what it found.
#pragma once

#include <dflash/vocabulary.hpp>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

DFLASH_BEGIN_NAMESPACE

namespace cpu {

/// Sets the IEEE default environment (nearest even, no flushing, no traps) and restores the old one at the end.
class fp_environment {
public:
#if defined(__SSE__)
    fp_environment() noexcept : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80U); }
    ~fp_environment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
    fp_environment() noexcept {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
    }
    ~fp_environment() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }
#else
    fp_environment() noexcept {}
    ~fp_environment() {}
#endif
    fp_environment(const fp_environment&) = delete;
    fp_environment& operator=(const fp_environment&) = delete;

private:
#if defined(__SSE__)
    unsigned saved_;
#elif defined(__aarch64__)
    std::uint64_t saved_ = 0;
#endif
};

}  // namespace cpu

DFLASH_END_NAMESPACE
