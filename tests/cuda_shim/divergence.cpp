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

/// One of 96 threads goes another way than the others.
struct goes_astray {
    struct arguments {
        way goes;
        int who;
    };
    static constexpr int max_threads = 96;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const bool other = t.thread() == a.who;
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
                    throw std::domain_error("a thread has had enough");
                }
                t.sync();
                return;
        }
    }
};

std::string refusal(way goes, int who) {
    try {
        run_kernel<goes_astray>({{2, 1, 1}, 96, 0}, {goes, who});
    } catch (const contract_error& e) {
        return e.what();
    }
    return "nothing was raised";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

void check_every_way(int who) {
    const std::string astray = "thread " + std::to_string(who);
    const auto reported = [&](way goes, const std::string& of_astray, const std::string& of_another) {
        const std::string text = refusal(goes, who);
        CHECK_MESSAGE(has(text, "threads that must meet do not: in block ("), text);
        CHECK_MESSAGE(has(text, astray + of_astray), text);
        CHECK_MESSAGE(has(text, of_another), text);
    };
    const std::string ended = " has ended";
    const std::string at_barrier = " waits at sync() in line ";
    const std::string at_shuffle = " waits at shuffle() in line ";
    const std::string at_shuffle_down = " waits at shuffle_down() in line ";
    reported(way::thread_ends, ended, at_barrier);
    reported(way::thread_ends_late, ended, at_barrier);
    reported(way::two_barriers, at_barrier, at_barrier);
    reported(way::lane_at_barrier, at_barrier, at_shuffle_down);
    reported(way::lane_ends, ended, at_shuffle);
    reported(way::two_kinds, at_shuffle, at_shuffle_down);
    reported(way::two_sizes, at_shuffle, " with 4 bytes");
    reported(way::two_sizes, at_shuffle, " with 8 bytes");
    reported(way::two_shuffles, at_shuffle, at_shuffle);
    CHECK(refusal(way::lane_out_of_range, who) == astray + ": shuffle from lane 32, needs 0 .. 31");
    CHECK(refusal(way::together, who) == "nothing was raised");
}

TEST_CASE("threads that do not meet are reported, whoever comes first") {
    const settings_scope scope;
    for (int seed = 0; seed < 10; ++seed) {
        settings.seed = static_cast<std::uint64_t>(seed);
        check_every_way(37);
    }
    settings.shuffle = false;  // so that thread 0 comes before the others and thread 95 after them
    for (const int who : {0, 95}) {
        check_every_way(who);
    }
    settings.engine = engine::threads;
    for (const int who : {0, 37, 95}) {
        check_every_way(who);
    }
}

TEST_CASE("what a kernel raises comes out of the launch, and the next launch is right") {
    const settings_scope scope;
    for (const engine e : {engine::fibers, engine::threads}) {
        settings.engine = e;
        CHECK_THROWS_WITH_AS(static_cast<void>(refusal(way::raises, 37)), "a thread has had enough", std::domain_error);
        const row_sums_case c;
        CHECK(c.run<fault::none>() == c.expected());
    }
}

}  // namespace
}  // namespace dflash::test
