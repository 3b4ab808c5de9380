// The exact backend as an object: its promises, its refusals, and the floating-point environment it works in.
#include <array>
#include <utility>

#include <Eigen/Core>

#include <dflash/numerics/linear.hpp>

#include "support.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace cpu_tests {

using dflash::cpu::exact;
using dflash::cpu::exact_options;
using dflash::cpu::isa;
namespace numerics = dflash::numerics;

static_assert(dflash::tensor_ops_check<exact>());
static_assert(dflash::attention_backend<exact, float, dflash::contiguous_layer<float>>);
static_assert(exact::guarantee == dflash::determinism::cross_isa);
static_assert(std::is_same_v<exact::cache_type, dflash::contiguous_cache<float>>);

TEST_CASE("the instruction set is chosen for the machine, or forced") {
    CHECK(exact().instruction_set() != isa::automatic);
    for (const isa set : {isa::scalar, isa::avx2, isa::avx512, isa::avx512_bf16, isa::neon, isa::native}) {
        CAPTURE(name_of(set));
        if (dflash::cpu::available(set)) {
            CHECK(exact(exact_options{1, set}).instruction_set() == set);
        } else {
            CHECK_THROWS_AS(exact(exact_options{1, set}), dflash::backend_error);
        }
    }
    CHECK(dflash::cpu::available(isa::scalar));
    CHECK(dflash::cpu::available(isa::automatic));
#if defined(__x86_64__)
    CHECK_THROWS_WITH_AS(exact(exact_options{1, isa::neon}),
                         "exact: this machine or this build has no kernels for the instruction set neon",
                         dflash::backend_error);
    CHECK(dflash::cpu::available(isa::avx2) == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    CHECK(dflash::cpu::available(isa::avx512) == static_cast<bool>(__builtin_cpu_supports("avx512f")));
#elif defined(__aarch64__)
    CHECK(dflash::cpu::available(isa::neon));
#endif
}

TEST_CASE("threads") {
    exact ops;
    CHECK(ops.threads() == dflash::cpu::available_threads());
    ops.set_threads(3);
    CHECK(ops.threads() == 3);
    ops.set_threads(0);
    CHECK(ops.threads() == dflash::cpu::available_threads());
    CHECK_THROWS_WITH_AS(ops.set_threads(-1), "threads: got -1, needs at least 0", dflash::config_error);
    CHECK_THROWS_AS(exact(exact_options{-2, isa::automatic}), dflash::config_error);
}

TEST_CASE("empty calls and copies of the object") {
    const exact ops(exact_options{2, isa::scalar});
    const exact copy = ops;
    exact source(ops);
    exact moved = std::move(source);
    CHECK(copy.threads() == 2);
    CHECK(moved.instruction_set() == isa::scalar);
    moved = copy;
    stored w(dflash::dtype::f32, 3, 4);
    noise random(1);
    w.fill(random, content::plain);
    const std::array parts = {w.view()};
    const auto packed = moved.pack(parts);
    std::array<float, 4> nothing{};
    moved.linear({nothing.data(), 0, 4}, packed, {nothing.data(), 0, 3});
    moved.add({nothing.data(), 0, 4}, {nothing.data(), 0, 4});
}

TEST_CASE("shapes that do not fit are contract errors in checked builds") {
    const exact ops;
    stored w(dflash::dtype::f32, 3, 4);
    noise random(1);
    w.fill(random, content::plain);
    const std::array parts = {w.view()};
    const auto packed = ops.pack(parts);
    const auto norm = ops.pack_vector(w.view());
    matrix x(2, 4);
    matrix y(2, 3);
    matrix wrong(2, 5);
    CHECK_THROWS_AS(ops.linear(wrong.view(), packed, y.view()), dflash::contract_error);
    CHECK_THROWS_AS(ops.linear(x.view(), packed, wrong.view()), dflash::contract_error);
    CHECK_THROWS_AS(ops.rms_norm(x.view(), norm, 1e-6F, x.view()), dflash::contract_error);
    CHECK_THROWS_AS(ops.rms_norm_heads(wrong.view(), norm, 1e-6F, 12), dflash::contract_error);
    CHECK_THROWS_AS(ops.silu_mul(x.view(), y.view()), dflash::contract_error);
    CHECK_THROWS_AS(ops.add(x.view(), y.view()), dflash::contract_error);
    CHECK_THROWS_AS(ops.copy(x.view(), y.view()), dflash::contract_error);
    const numerics::rope_table table(numerics::rope_parameters{}, 4, 3);
    CHECK_THROWS_AS(ops.rope(x.view(), 4, table, 2), dflash::contract_error);
    CHECK_THROWS_AS(ops.rope(x.view(), 2, table, 0), dflash::contract_error);
}

TEST_CASE("an Eigen product has other bits: the comparison can tell") {
    noise random(3);
    const index k = 600;
    const index n = 64;
    stored w(dflash::dtype::f32, n, k);
    w.fill(random, content::wide);
    matrix x(17, k);
    x.fill(random, content::wide);
    const exact ops;
    const std::array parts = {w.view()};
    matrix y(17, n);
    ops.linear(x.view(), ops.pack(parts), y.view());

    using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto wide = w.widened();
    const Eigen::Map<const row_major> we(wide.data(), n, k);
    const Eigen::Map<const row_major> xe(x.row(0), 17, k);
    const row_major product = xe * we.transpose();
    index different = 0;
    for (index r = 0; r < 17; ++r) {
        different += differing(y.row(r), product.data() + r * n, n);
    }
    CHECK(different > 0);
}

#if defined(__SSE__)
TEST_CASE("a machine that flushes or rounds otherwise is refused, with the reason") {
    const unsigned before = _mm_getcsr();
    for (const unsigned hostile : {0x8000U, 0x0040U, 0x2000U, 0x4000U, 0x6000U}) {
        _mm_setcsr(before | hostile);
        std::string reason;
        try {
            dflash::cpu::detail::require_arithmetic();
        } catch (const dflash::backend_error& refused) {
            reason = refused.what();
        }
        _mm_setcsr(before);
        CAPTURE(hostile);
        CHECK(reason.substr(0, 7) == "exact: ");
    }
    dflash::cpu::detail::require_arithmetic();
}
#endif

#if defined(__SSE__) && defined(_OPENMP)
TEST_CASE("flush-to-zero and rounding of the calling thread do not show, and are left as they were") {
    const exact ops(exact_options{2, isa::automatic});
    const index k = 700;
    const index n = 400;
    stored w(dflash::dtype::f32, n, k);
    noise random(5);
    w.fill(random, content::subnormal);
    matrix x(2, k);
    x.fill(random, content::plain);
    matrix right(2, n);
    const auto wide = w.widened();
    for (index r = 0; r < 2; ++r) {
        numerics::linear(wide.data(), nullptr, x.row(r), k, n, right.row(r));
    }
    const std::array parts = {w.view()};
    const auto packed = ops.pack(parts);
    std::vector<exact> backends;
    for (const isa set : instruction_sets()) {
        for (const int threads : {1, 3}) {
            backends.push_back(backend(set, threads));
        }
    }
    constexpr unsigned hostile = 0x1F80U | 0x8040U | 0x6000U;  // flush, denormals are zero, round towards zero
    for (const exact& forced : backends) {
        const unsigned before = _mm_getcsr();
        // The runtime keeps its threads, so what is set in one parallel region waits for the next.
#pragma omp parallel num_threads(forced.threads())
        _mm_setcsr(hostile);
        matrix y(2, n);
        _mm_setcsr(hostile);
        forced.linear(x.view(), packed, y.view());
        const unsigned after = _mm_getcsr();
        index workers_changed = 0;
#pragma omp parallel num_threads(forced.threads()) reduction(+ : workers_changed)
        {
            workers_changed += (_mm_getcsr() & 0xFFC0U) != hostile ? 1 : 0;
            _mm_setcsr(before);
        }
        _mm_setcsr(before);
        CAPTURE(label(forced.instruction_set(), forced.threads()));
        CHECK(differing(y, right) == 0);
        CHECK((after & 0xFFC0U) == hostile);
        CHECK(workers_changed == 0);
    }
}
#endif

}  // namespace cpu_tests
