#include <doctest/doctest.h>
#include <dflash/numerics/self_test.hpp>

#include <cfenv>
#include <string>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

using dflash::numerics::arithmetic_self_test;

TEST_CASE("the arithmetic of this build passes") {
    const auto result = arithmetic_self_test();
    CHECK_MESSAGE(result.ok, std::string(result.what));
    CHECK(result.what.empty());
}

TEST_CASE("other rounding modes are noticed") {
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        const auto result = arithmetic_self_test();
        std::fesetround(FE_TONEAREST);
        CHECK_FALSE(result.ok);
        CHECK_FALSE(result.what.empty());
    }
}

#if defined(__SSE2__)
TEST_CASE("flushed subnormals are noticed") {
    const unsigned normal = _mm_getcsr();
    for (const unsigned bit : {0x8000U, 0x0040U}) {  // flush-to-zero, denormals-are-zero
        _mm_setcsr(normal | bit);
        const auto result = arithmetic_self_test();
        _mm_setcsr(normal);
        CHECK_FALSE(result.ok);
        CHECK(result.what.find("subnormal") != std::string_view::npos);
    }
    CHECK(arithmetic_self_test().ok);
}
#endif
