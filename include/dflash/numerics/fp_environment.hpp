// The floating-point environment that the arithmetic relies on, for the length of a scope.
//
// A shared library built with fast-math can switch flush-to-zero on for threads it never heard of, and an application
// may round in another direction. Whatever computes therefore sets rounding to nearest even and full subnormals first,
// and puts back what it found.
#pragma once

#include <dflash/vocabulary.hpp>

#if !defined(__SSE__) && !defined(__aarch64__)
#include <cfenv>
#endif

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// Sets the IEEE default environment (nearest even, no flushing, no traps) and restores the old one at the end.
class fp_environment {
public:
#if defined(__SSE__)
    fp_environment() noexcept : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(0x1F80U); }
    ~fp_environment() { __builtin_ia32_ldmxcsr(saved_); }
#elif defined(__aarch64__)
    fp_environment() noexcept {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
    }
    ~fp_environment() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }
#else
    fp_environment() noexcept {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~fp_environment() { std::fesetenv(&saved_); }
#endif
    fp_environment(const fp_environment&) = delete;
    fp_environment& operator=(const fp_environment&) = delete;

private:
#if defined(__SSE__)
    unsigned saved_;
#elif defined(__aarch64__)
    std::uint64_t saved_ = 0;
#else
    std::fenv_t saved_{};
#endif
};

}  // namespace numerics

DFLASH_END_NAMESPACE
