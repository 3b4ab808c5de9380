// Threads that must meet and do not: each case is reported with the threads it is about, and the engines stay usable.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include <cuda_shim/toy_kernels.hpp>

namespace dflash::test {
namespace {

using cuda::shim::engine;
using cuda::shim::settings;

enum class way : std::uint8_t {
    together,
    thread_ends,
    thread_ends_late,
    two_barriers,
    lane_at_barrier,
    lane_ends,
    two_kinds,
    two_sizes,
    two_shuffles,
    lane_out_of_range,
    raises,
};

/// Thread 37 of 96 goes another way than the others.
struct goes_astray {
    struct arguments {
        way goes;
    };
    static constexpr int max_threads = 96;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const bool other = t.thread() == 37;
        switch (a.goes) {
            case way::together:
                t.sync();
                static_cast<void>(t.shuffle_down(1.0F, 1));
                return;
            case way::thread_ends:
                if (!other) {
                    t.sync();
                }
                return;
            case way::thread_ends_late:
                t.sync();
                t.sync();
                if (!other) {
                    t.sync();
                }
                return;
            case way::two_barriers:
                if (other) {
                    t.sync();
                } else {
                    t.sync();
                }
                return;
            case way::lane_at_barrier:
                if (!other) {
                    static_cast<void>(t.shuffle_down(1, 1));
                }
                t.sync();
                return;
            case way::lane_ends:
                if (!other) {
                    static_cast<void>(t.shuffle(1, 0));
                }
                return;
            case way::two_kinds: static_cast<void>(other ? t.shuffle(1, 0) : t.shuffle_down(1, 0)); return;
            case way::two_sizes:
                static_cast<void>(other ? t.shuffle(1.0, 0) : static_cast<double>(t.shuffle(1.0F, 0)));
                return;
            case way::two_shuffles:
                if (other) {
                    static_cast<void>(t.shuffle(1, 0));
                } else {
                    static_cast<void>(t.shuffle(1, 0));
                }
                return;
            case way::lane_out_of_range: static_cast<void>(t.shuffle(1, other ? 32 : 31)); return;
            case way::raises:
                if (other) {
                    throw std::domain_error("thread 37 has had enough");
                }
                t.sync();
                return;
        }
    }
};

std::string refusal(way goes) {
    try {
        run_kernel<goes_astray>({{2, 1, 1}, 96, 0}, {goes});
    } catch (const contract_error& e) {
        return e.what();
    }
    return "nothing was raised";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("threads that do not meet are reported, whoever comes first") {
    const settings_scope scope;
    for (const engine e : {engine::fibers, engine::threads}) {
        settings.engine = e;
        const int rounds = e == engine::fibers ? 20 : 2;
        for (int seed = 0; seed < rounds; ++seed) {
            settings.seed = static_cast<std::uint64_t>(seed);
            for (const way goes : {way::thread_ends, way::thread_ends_late}) {
                const std::string text = refusal(goes);
                CHECK_MESSAGE(has(text, "threads that must meet do not: in block ("), text);
                CHECK_MESSAGE(has(text, "thread 37 has ended"), text);
                CHECK_MESSAGE(has(text, " waits at sync() in line "), text);
            }
            std::string text = refusal(way::two_barriers);
            CHECK_MESSAGE(has(text, "thread 37 waits at sync() in line "), text);
            text = refusal(way::lane_at_barrier);
            CHECK_MESSAGE(has(text, "thread 37 waits at sync() in line "), text);
            CHECK_MESSAGE(has(text, " waits at shuffle_down() in line "), text);
            text = refusal(way::lane_ends);
            CHECK_MESSAGE(has(text, "thread 37 has ended"), text);
            CHECK_MESSAGE(has(text, " waits at shuffle() in line "), text);
            text = refusal(way::two_kinds);
            CHECK_MESSAGE(has(text, "thread 37 waits at shuffle() in line "), text);
            CHECK_MESSAGE(has(text, " waits at shuffle_down() in line "), text);
            text = refusal(way::two_sizes);
            CHECK_MESSAGE(has(text, " with 4 bytes"), text);
            CHECK_MESSAGE(has(text, " with 8 bytes"), text);
            text = refusal(way::two_shuffles);
            CHECK_MESSAGE(has(text, "thread 37 waits at shuffle() in line "), text);
            CHECK(refusal(way::lane_out_of_range) == "thread 37: shuffle from lane 32, needs 0 .. 31");
            CHECK(refusal(way::together) == "nothing was raised");
        }
    }
}

TEST_CASE("what a kernel raises comes out of the launch, and the next launch is right") {
    const settings_scope scope;
    for (const engine e : {engine::fibers, engine::threads}) {
        settings.engine = e;
        CHECK_THROWS_WITH_AS(static_cast<void>(refusal(way::raises)), "thread 37 has had enough", std::domain_error);
        const row_sums_case c;
        CHECK(c.run<fault::none>() == c.expected());
    }
}

}  // namespace
}  // namespace dflash::test
