// What a block computes in the simulator, in both engines, and which faults of a kernel show.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <string>

#include <cuda_shim/toy_kernels.hpp>

namespace dflash::test {
namespace {

using cuda::warp_size;
using cuda::shim::engine;
using cuda::shim::settings;

constexpr engine engines[] = {engine::fibers, engine::threads};

/// For each thread of a grid of several dimensions: where the handle says that it is.
struct who_am_i {
    struct arguments {
        int* out;  // (z, y, x, threads, 6)
        int x;
        int y;
    };
    static constexpr int max_threads = 64;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        const int block = (t.block_z() * a.y + t.block_y()) * a.x + t.block_x();
        int* const own = a.out + (block * t.threads() + t.thread()) * 6;
        const int words[6] = {t.block_x(), t.block_y(), t.block_z(), t.thread(), t.warp(), t.lane()};
        for (int i = 0; i < 6; ++i) {
            own[i] += words[i] + 1;  // adding shows threads that ran twice
        }
    }
};

template <class T>
struct shuffles {
    struct arguments {
        const T* in;  // (threads)
        T* down;      // (32, threads)
        T* from;      // (32, threads)
    };
    static constexpr int max_threads = 96;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        for (int i = 0; i < warp_size; ++i) {
            a.down[i * t.threads() + t.thread()] = t.shuffle_down(a.in[t.thread()], i);
            a.from[i * t.threads() + t.thread()] = t.shuffle(a.in[t.thread()], i);
        }
    }
};

/// Writes down who comes when. Not for engine::threads.
struct write_order {
    struct arguments {
        int* next;
        int* order;  // (2, blocks, threads)
    };
    static constexpr int max_threads = 64;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        a.order[(*a.next)++] = t.block_x() * t.threads() + t.thread();
        t.sync();
        a.order[(*a.next)++] = t.block_x() * t.threads() + t.thread();
    }
};

std::vector<int> order_of_a_launch() {
    const device_array<int> next(std::vector<int>{0});
    const device_array<int> order(2 * 3 * 64);
    run_kernel<write_order>({{3, 1, 1}, 64, 0}, {next.data(), order.data()});
    return order.values();
}

/// shared[at] as it was before anybody wrote, then writes it.
struct read_before_write {
    struct arguments {
        int at;  // byte
        float* out;
    };
    static constexpr int max_threads = warp_size;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.thread() == 0) {
            float* const cell = t.template shared<float>(a.at);
            a.out[t.block_x()] = *cell;
            *cell = 1.0F;
        }
    }
};

/// Writes one int behind the shared memory.
struct write_behind {
    struct arguments {
        int size;  // ints
    };
    static constexpr int max_threads = warp_size;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.thread() == 31) {
            t.template shared<int>(0)[a.size] = 0;
        }
    }
};

/// The number of seeds of `count` with which the sums come out wrong.
template <fault Fault>
int wrong_sums(int count) {
    const row_sums_case c{2, 128, 2};
    int wrong = 0;
    for (int seed = 0; seed < count; ++seed) {
        settings.seed = static_cast<std::uint64_t>(seed);
        wrong += c.run<Fault>() != c.expected() ? 1 : 0;
    }
    return wrong;
}

TEST_CASE("each thread of each block runs once and knows where it is") {
    const settings_scope scope;
    for (const engine e : engines) {
        settings.engine = e;
        const device_array<int> out(std::vector<int>(2 * 3 * 4 * 64 * 6, 0));
        run_kernel<who_am_i>({{4, 3, 2}, 64, 0}, {out.data(), 4, 3});
        std::vector<int> expected;
        for (int i = 0; i < 2 * 3 * 4 * 64; ++i) {
            for (const int word : {i / 64 % 4, i / 64 / 4 % 3, i / 64 / 12, i % 64, i % 64 / 32, i % 32}) {
                expected.push_back(word + 1);
            }
        }
        CHECK(out.values() == expected);
    }
}

TEST_CASE("sums over a block are right in both engines and for every seed") {
    const settings_scope scope;
    for (const int threads : {32, 64, 256}) {
        for (const engine e : engines) {
            settings.engine = e;
            const row_sums_case c{2, threads, 3};
            CHECK(c.run<fault::none>() == c.expected());
        }
    }
    settings.engine = engine::fibers;
    CHECK(wrong_sums<fault::none>(50) == 0);
    settings.shuffle = false;
    CHECK(wrong_sums<fault::none>(1) == 0);
}

template <class T>
void check_shuffles(T scale) {
    std::vector<T> in(96);
    std::iota(in.begin(), in.end(), T{1});
    for (T& value : in) {
        value *= scale;
    }
    const device_array<T> values(in);
    const device_array<T> down(32 * 96);
    const device_array<T> from(32 * 96);
    run_kernel<shuffles<T>>({{}, 96, 0}, {values.data(), down.data(), from.data()});
    const std::vector<T> got_down = down.values();
    const std::vector<T> got_from = from.values();
    bool right = true;
    for (std::size_t i = 0; i < 32; ++i) {
        for (std::size_t t = 0; t < 96; ++t) {
            const std::size_t lane = t % 32;
            right = right && got_down[i * 96 + t] == in[lane + i < 32 ? t + i : t];
            right = right && got_from[i * 96 + t] == in[t - lane + i];
        }
    }
    CHECK(right);
}

TEST_CASE("shuffles move numbers of 4 and 8 bytes within the warp") {
    const settings_scope scope;
    for (const engine e : engines) {
        settings.engine = e;
        check_shuffles<int>(-3);
        check_shuffles<float>(0.37F);
        check_shuffles<double>(-1e300);
        check_shuffles<std::uint64_t>(0x0123456789ABCDU);
    }
}

TEST_CASE("the seed decides the order of threads and blocks") {
    const settings_scope scope;
    settings.seed = 5;
    const std::vector<int> first = order_of_a_launch();
    CHECK(settings.seed == 6);
    const std::vector<int> second = order_of_a_launch();
    settings.seed = 5;
    CHECK(order_of_a_launch() == first);
    CHECK(first != second);

    std::vector<int> sorted = first;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> every_thread_twice(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        every_thread_twice[i] = static_cast<int>(i / 2);
    }
    CHECK(sorted == every_thread_twice);

    int other_first_block = 0;
    int other_first_thread = 0;
    for (int seed = 0; seed < 20; ++seed) {
        settings.seed = static_cast<std::uint64_t>(seed);
        const std::vector<int> order = order_of_a_launch();
        other_first_block += order[0] / 64 != first[0] / 64 ? 1 : 0;
        other_first_thread += order[0] % 64 != first[0] % 64 ? 1 : 0;
    }
    CHECK(other_first_block > 0);
    CHECK(other_first_thread > 0);

    settings.shuffle = false;
    std::vector<int> ascending;
    for (int block = 0; block < 3; ++block) {
        for (int i = 0; i < 2 * 64; ++i) {
            ascending.push_back(block * 64 + i % 64);
        }
    }
    CHECK(order_of_a_launch() == ascending);
}

TEST_CASE("some orders keep a warp running and some change warps all the time") {
    const settings_scope scope;
    int one_warp_first = 0;
    int mixed = 0;
    for (int seed = 0; seed < 20; ++seed) {
        settings.seed = static_cast<std::uint64_t>(seed);
        const std::vector<int> order = order_of_a_launch();
        int of_first_warp = 0;
        for (std::size_t i = 0; i < 32; ++i) {
            of_first_warp += order[i] / 32 == order[0] / 32 ? 1 : 0;
        }
        (of_first_warp == 32 ? one_warp_first : mixed) += 1;
    }
    CHECK(one_warp_first > 0);
    CHECK(mixed > 0);
}

TEST_CASE("a missing barrier gives wrong results for some seeds") {
    const settings_scope scope;
    CHECK(wrong_sums<fault::before_reading>(20) > 0);
    CHECK(wrong_sums<fault::after_reading>(20) > 0);
}

TEST_CASE("shared memory that nobody wrote is NaN, in every block") {
    const settings_scope scope;
    for (const engine e : engines) {
        settings.engine = e;
        const device_array<float> out(3);
        run_kernel<read_before_write>({{3, 1, 1}, warp_size, 16}, {12, out.data()});
        for (const float value : out.values()) {
            CHECK(std::isnan(value));
        }
    }
}

TEST_CASE("shared memory out of range or misaligned is refused") {
    const settings_scope scope;
    for (const engine e : engines) {
        settings.engine = e;
        const device_array<float> out(1);
        const auto read_at = [&](int byte, int shared_bytes) {
            run_kernel<read_before_write>({{}, warp_size, shared_bytes}, {byte, out.data()});
        };
        CHECK_NOTHROW(read_at(12, 16));
        CHECK_THROWS_WITH_AS(read_at(16, 16), "thread 0: shared memory of 16 bytes has no 4 bytes at byte 16",
                             contract_error);
        CHECK_THROWS_AS(read_at(13, 16), contract_error);
        CHECK_THROWS_AS(read_at(-4, 16), contract_error);
        CHECK_THROWS_AS(read_at(0, 0), contract_error);
        CHECK_THROWS_WITH_AS(read_at(6, 16), "thread 0: byte 6 of shared memory is no multiple of 4", contract_error);
    }
}

#if !DFLASH_SHIM_ASAN  // which ends the program there: see cuda_shim.address.shared_overrun
TEST_CASE("writing behind shared memory is noticed") {
    const settings_scope scope;
    for (const engine e : engines) {
        settings.engine = e;
        CHECK_NOTHROW(run_kernel<write_behind>({{}, warp_size, 16}, {3}));
        CHECK_THROWS_WITH_AS(run_kernel<write_behind>({{}, warp_size, 16}, {4}),
                             "shared memory of 16 bytes: byte 16 was written", contract_error);
    }
}
#endif

}  // namespace
}  // namespace dflash::test
