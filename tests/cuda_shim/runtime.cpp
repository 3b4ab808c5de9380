// The simulated runtime: memory, streams, captures, lazy work, launch limits and what is counted.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include <cuda_shim/toy_kernels.hpp>

namespace dflash::test {
namespace {

namespace runtime = cuda::runtime;
namespace shim = cuda::shim;
using cuda::shim::settings;

/// number = number * factor + term, so that the order of two launches shows.
struct scale_and_add {
    struct arguments {
        int* number;
        int factor;
        int term;
    };
    static constexpr int max_threads = 64;

    template <class Thread>
    DFLASH_DEVICE static void run(const Thread& t, const arguments& a) {
        if (t.thread() == 0) {
            *a.number = *a.number * a.factor + a.term;
        }
    }
};

void put(runtime::stream stream, const device_array<int>& number, int factor, int term) {
    runtime::launch<scale_and_add>(stream, {}, {number.data(), factor, term});
}

class pinned_int {
public:
    pinned_int() : number_(static_cast<int*>(runtime::allocate_pinned(sizeof(int)))) {}
    ~pinned_int() { runtime::release_pinned(number_); }
    pinned_int(const pinned_int&) = delete;
    pinned_int& operator=(const pinned_int&) = delete;

    int* operator&() const { return number_; }
    int& operator*() const { return *number_; }

private:
    int* number_;
};

template <class Action>
std::string refusal(const Action& action) {
    try {
        action();
    } catch (const backend_error& e) {
        return e.what();
    }
    return "nothing was raised";
}

TEST_CASE("memory is NaN at first, counted while it lives, and limited") {
    const settings_scope scope;
    const shim::allocations before = shim::live_allocations();
    const shim::allocations pinned_before = shim::live_pinned();
    {
        const device_array<float> numbers(3);
        const device_array<float> more(5);
        for (const float value : numbers.values()) {
            CHECK(std::isnan(value));
        }
        CHECK(shim::live_allocations() == shim::allocations{before.count + 2, before.bytes + 32});
        CHECK(shim::live_pinned() == pinned_before);
        const pinned_int pinned;
        CHECK(*pinned == -1);
        CHECK(shim::live_pinned() == shim::allocations{pinned_before.count + 1, pinned_before.bytes + 4});
        settings.device_memory = before.bytes + 40;
        CHECK_NOTHROW(runtime::release(runtime::allocate(8)));
        CHECK(refusal([] { runtime::release(runtime::allocate(9)); }) == "cuda: device memory: 9 bytes: out of memory");
    }
    CHECK(shim::live_allocations() == before);
    CHECK(shim::live_pinned() == pinned_before);
    CHECK(runtime::allocate(0) == nullptr);
    runtime::release(nullptr);
}

TEST_CASE("releasing what was not allocated is an error at the next wait") {
    const settings_scope scope;
    const stream_scope stream;
    const pinned_int pinned;
    int host = 0;
    runtime::release(&pinned);  // as device memory, which it is not
    CHECK(refusal([&] { runtime::wait(stream); }) == "cuda: release: no such device memory");
    runtime::release(&host);
    CHECK(refusal([&] { runtime::wait(stream); }) == "cuda: release: no such device memory");
    CHECK(refusal([&] { runtime::wait(stream); }) == "nothing was raised");
}

TEST_CASE("without a device there is no memory and no stream") {
    const settings_scope scope;
    CHECK(runtime::device_count() == 1);
    settings.devices = 0;
    CHECK(runtime::device_count() == 0);
    CHECK_THROWS_AS(runtime::release(runtime::allocate(4)), backend_error);
    CHECK_THROWS_AS(runtime::release_pinned(runtime::allocate_pinned(4)), backend_error);
    CHECK_THROWS_AS(runtime::destroy(runtime::create_stream()), backend_error);
}

TEST_CASE("copies and clears move the bytes they name and no others, and stay within allocations") {
    const settings_scope scope;
    const stream_scope stream;
    const device_array<int> numbers(std::vector<int>{1, 2, 3, 4});
    runtime::clear(numbers.data() + 1, 4, stream);
    const int seven = 7;
    runtime::copy(numbers.data() + 2, &seven, 4, stream);
    CHECK(numbers.values() == std::vector<int>{1, 0, 7, 4});

    std::array<int, 8> host{};
    CHECK(refusal([&] { runtime::copy(host.data(), numbers.data() + 1, 16, stream); }) ==
          "cuda: copy from device memory: 16 bytes at byte 4 of 16");
    CHECK(refusal([&] { runtime::copy(numbers.data(), host.data(), 20, stream); }) ==
          "cuda: copy to device memory: 20 bytes at byte 0 of 16");
    CHECK_THROWS_AS(runtime::clear(numbers.data() + 3, 8, stream), backend_error);
    CHECK_THROWS_AS(runtime::clear(host.data(), 8, stream), backend_error);
    CHECK_THROWS_AS(runtime::copy(nullptr, host.data(), 4, stream), backend_error);
    CHECK_THROWS_AS(runtime::copy(host.data(), nullptr, 4, stream), backend_error);
    CHECK_NOTHROW(runtime::copy(nullptr, nullptr, 0, stream));
    CHECK(numbers.values() == std::vector<int>{1, 0, 7, 4});
}

TEST_CASE("a launch that no device takes is refused with the numbers") {
    const settings_scope scope;
    const stream_scope stream;
    const device_array<int> number(std::vector<int>{1});
    const auto launch = [&](const cuda::launch_shape& shape) {
        return refusal([&] { runtime::launch<scale_and_add>(stream, shape, {number.data(), 2, 0}); });
    };
    const std::string taken = "nothing was raised";
    CHECK(launch({{1, 1, 1}, 32, 0}) == taken);
    CHECK(launch({{1, 1, 1}, 64, 227 * 1024}) == taken);
    CHECK(number.values()[0] == 4);
    for (const int threads : {0, -32, 16, 33, 96, 1024}) {
        CHECK(launch({{1, 1, 1}, threads, 0}) ==
              "cuda: launch: got " + std::to_string(threads) + " threads, needs a multiple of 32 up to 64");
    }
    CHECK(launch({{1, 1, 1}, 32, 227 * 1024 + 1}) ==
          "cuda: launch: got 232449 bytes of shared memory, needs 0 .. 232448");
    CHECK(launch({{1, 1, 1}, 32, -1}) != taken);
    for (const cuda::grid& blocks :
         {cuda::grid{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0x80000000U, 1, 1}, {1, 65536, 1}, {1, 1, 65536}}) {
        CHECK(launch({blocks, 32, 0}) != taken);
    }
    CHECK(number.values()[0] == 4);
}

TEST_CASE("a graph does in order what was captured, each time it is launched, with the arguments of the capture") {
    const settings_scope scope;
    for (const bool lazy : {false, true}) {
        settings.lazy = lazy;
        const stream_scope stream;
        const device_array<int> number(std::vector<int>{5});
        const pinned_int in;
        const pinned_int out;
        *in = 1;
        *out = 0;
        runtime::begin_capture(stream);
        runtime::copy(number.data(), &in, 4, stream);
        {
            scale_and_add::arguments of_capture{number.data(), 2, 1};
            runtime::launch<scale_and_add>(stream, {}, of_capture);
            of_capture = {};
        }
        put(stream, number, 10, 0);
        runtime::copy(&out, number.data(), 4, stream);
        const runtime::graph graph = runtime::end_capture(stream);
        runtime::wait(stream);
        CHECK(number.values()[0] == 5);

        runtime::launch(graph, stream);
        runtime::wait(stream);
        CHECK(*out == 30);
        *in = 3;
        runtime::launch(graph, stream);
        put(stream, number, 1, 4);
        runtime::wait(stream);
        CHECK(*out == 70);
        CHECK(number.values()[0] == 74);

        runtime::launch(graph, stream);
        runtime::destroy(graph);  // what has been launched still happens
        runtime::wait(stream);
        CHECK(number.values()[0] == 70);
        CHECK(refusal([&] { runtime::launch(graph, stream); }) == "cuda: no such graph");
    }
}

TEST_CASE("what a device refuses during a capture is refused, and there is no graph") {
    const settings_scope scope;
    const stream_scope stream;
    const stream_scope other;
    const device_array<int> number(std::vector<int>{5});
    const pinned_int pinned;
    int host = 0;
    runtime::begin_capture(stream);
    put(stream, number, 2, 0);
    const runtime::graph graph = runtime::end_capture(stream);

    const auto refused = [&](const auto& action) {
        runtime::begin_capture(stream);
        const std::string at_once = refusal(action);
        const std::string at_end = refusal([&] { runtime::destroy(runtime::end_capture(stream)); });
        CHECK_MESSAGE(at_end.find("cuda: end_capture: no graph, because of a ") == 0, at_end);
        return at_once;
    };
    const std::string reason = ": operation not permitted when stream is capturing";
    CHECK(refused([] { runtime::release(runtime::allocate(4)); }) == "cuda: device memory" + reason);
    CHECK(refused([] { runtime::release_pinned(runtime::allocate_pinned(4)); }) == "cuda: pinned memory" + reason);
    CHECK(refused([&] { runtime::wait(stream); }) == "cuda: wait" + reason);
    CHECK(refused([&] { runtime::wait(other); }) == "cuda: wait" + reason);
    CHECK(refused([&] { runtime::copy(&host, number.data(), 4, stream); }) ==
          "cuda: copy from or to pageable memory" + reason);
    CHECK(refused([&] { runtime::copy(number.data(), &host, 4, stream); }) ==
          "cuda: copy from or to pageable memory" + reason);
    CHECK(refused([&] { runtime::begin_capture(other); }) == "cuda: begin_capture" + reason);
    CHECK(refused([&] { runtime::launch(graph, stream); }) == "cuda: launch of a graph" + reason);

    // Cannot raise, so only the end of the capture tells.
    void* const memory = runtime::allocate(4);
    const shim::allocations live = shim::live_allocations();
    CHECK(refused([&] { runtime::release(memory); }) == "nothing was raised");
    CHECK(shim::live_allocations() == live);
    runtime::release(memory);
    CHECK(shim::live_allocations().count == live.count - 1);

    CHECK(refusal([&] { runtime::destroy(runtime::end_capture(stream)); }) ==
          "cuda: end_capture: the stream is not capturing");
    runtime::wait(stream);
    CHECK(number.values()[0] == 5);
    runtime::launch(graph, stream);
    CHECK(number.values()[0] == 10);
    runtime::destroy(graph);
}

TEST_CASE("a graph whose memory has been released is refused") {
    const settings_scope scope;
    const stream_scope stream;
    const pinned_int pinned;
    runtime::graph graph = nullptr;
    {
        const device_array<int> number(1);
        runtime::begin_capture(stream);
        runtime::copy(&pinned, number.data(), 4, stream);
        graph = runtime::end_capture(stream);
    }
    CHECK(refusal([&] { runtime::launch(graph, stream); }) == "cuda: copy of 4 bytes: its memory has been released");
    runtime::destroy(graph);
}

TEST_CASE("lazy work happens at the wait and not before") {
    const settings_scope scope;
    const device_array<int> number(std::vector<int>{1});
    const stream_scope stream;
    const pinned_int pinned;
    settings.lazy = true;
    *pinned = 0;
    int host = 0;
    put(stream, number, 10, 2);
    runtime::copy(&pinned, number.data(), 4, stream);
    runtime::copy(&host, number.data(), 4, stream);
    runtime::clear(number.data(), 4, stream);
    CHECK(*pinned == 0);
    CHECK(host == 0);
    CHECK(shim::counts().kernels == 0);
    runtime::wait(stream);
    CHECK(*pinned == 12);
    CHECK(host == 12);
    CHECK(number.values()[0] == 0);
}

TEST_CASE("lazy copies read pageable memory at once and pinned memory when they happen") {
    const settings_scope scope;
    const device_array<int> number(2);
    const stream_scope stream;
    const pinned_int pinned;
    settings.lazy = true;
    int host = 1;
    *pinned = 1;
    runtime::copy(number.data(), &host, 4, stream);
    runtime::copy(number.data() + 1, &pinned, 4, stream);
    host = 2;
    *pinned = 2;
    runtime::wait(stream);
    CHECK(number.values() == std::vector<int>{1, 2});
}

TEST_CASE("lazy errors come at the wait, and what stood behind them does not happen") {
    const settings_scope scope;
    const device_array<int> sums(std::vector<int>{0});
    const device_array<int> number(std::vector<int>{1});
    const stream_scope stream;
    settings.lazy = true;
    // No shared memory, which the kernel needs.
    CHECK_NOTHROW(runtime::launch<row_sums<fault::none>>(stream, {{}, 32, 0}, {sums.data(), sums.data(), 1}));
    put(stream, number, 2, 0);
    CHECK_THROWS_AS(runtime::wait(stream), contract_error);
    CHECK_NOTHROW(runtime::wait(stream));
    CHECK(number.values()[0] == 1);
}

TEST_CASE("releasing memory waits for lazy work, destroying a stream does too") {
    const settings_scope scope;
    const device_array<int> number(std::vector<int>{1});
    const stream_scope stream;
    const runtime::stream short_lived = runtime::create_stream();
    void* const memory = runtime::allocate(4);
    settings.lazy = true;
    put(stream, number, 2, 0);
    runtime::release(memory);
    CHECK(shim::counts().kernels == 1);
    put(short_lived, number, 2, 1);
    runtime::destroy(short_lived);
    CHECK(shim::counts().kernels == 2);
    CHECK(refusal([&] { runtime::wait(short_lived); }) == "cuda: no such stream");
    CHECK(number.values()[0] == 5);
}

TEST_CASE("the stream without a name works like the others, and waiting for all reaches it") {
    const settings_scope scope;
    const device_array<int> number(std::vector<int>{1});
    const device_array<int> other(std::vector<int>{1});
    const stream_scope stream;
    settings.lazy = true;
    put(nullptr, number, 2, 0);
    put(stream, other, 3, 0);
    CHECK(shim::counts().kernels == 0);
    runtime::wait(nullptr);
    CHECK(shim::counts().kernels == 1);
    put(nullptr, number, 2, 0);
    runtime::wait_all();
    CHECK(shim::counts().kernels == 3);
    CHECK(number.values()[0] == 4);
    CHECK(other.values()[0] == 3);
    CHECK_THROWS_AS(runtime::begin_capture(nullptr), backend_error);
}

TEST_CASE("waiting for all raises what went wrong in any stream, and does the others' work") {
    const settings_scope scope;
    const device_array<int> number(std::vector<int>{1});
    const stream_scope broken;
    const stream_scope stream;
    settings.lazy = true;
    runtime::launch<row_sums<fault::none>>(broken, {{}, 32, 0}, {number.data(), number.data(), 1});
    put(stream, number, 2, 0);
    CHECK_THROWS_AS(runtime::wait_all(), contract_error);
    CHECK_NOTHROW(runtime::wait_all());
    CHECK(number.values()[0] == 2);
}

TEST_CASE("kernels see device and pinned memory, and no other") {
    const settings_scope scope;
    const pinned_int pinned;
    const int host = 0;
    const int* gone = nullptr;
    {
        const device_array<int> numbers(2);
        gone = numbers.data();
        CHECK(runtime::visible(numbers.data()));
        CHECK(runtime::visible(numbers.data() + 1));
        CHECK_FALSE(runtime::visible(numbers.data() + 2));
    }
    CHECK(runtime::visible(&pinned));
    CHECK_FALSE(runtime::visible(&host));
    CHECK_FALSE(runtime::visible(gone));
    CHECK_FALSE(runtime::visible(nullptr));
}

TEST_CASE("an abandoned capture leaves nothing behind") {
    const settings_scope scope;
    const device_array<int> number(std::vector<int>{1});
    const stream_scope stream;
    runtime::begin_capture(stream);
    put(stream, number, 2, 0);
    CHECK_THROWS_AS(runtime::wait(stream), backend_error);
    runtime::abandon_capture(stream);
    CHECK(number.values()[0] == 1);
    runtime::begin_capture(stream);
    const runtime::graph nothing = runtime::end_capture(stream);
    runtime::launch(nothing, stream);
    CHECK(number.values()[0] == 1);
    runtime::destroy(nothing);
}

TEST_CASE("counts tell launches, graphs and copies by direction") {
    const settings_scope scope;
    const device_array<int> a(4);
    const device_array<int> b(4);
    const stream_scope stream;
    const pinned_int pinned;
    std::array<int, 4> host{};
    shim::reset_counts();
    runtime::clear(a.data(), 16, stream);
    runtime::copy(a.data(), host.data(), 16, stream);
    runtime::copy(b.data(), &pinned, 4, stream);
    runtime::copy(&pinned, b.data(), 4, stream);
    runtime::copy(b.data(), a.data(), 12, stream);
    runtime::copy(host.data(), &pinned, 4, stream);
    put(stream, a, 1, 0);
    runtime::begin_capture(stream);
    put(stream, a, 1, 0);
    put(stream, b, 1, 0);
    runtime::copy(&pinned, a.data(), 4, stream);
    const runtime::graph graph = runtime::end_capture(stream);
    CHECK(shim::counts().kernels == 1);
    runtime::launch(graph, stream);
    runtime::launch(graph, stream);
    runtime::wait(stream);
    runtime::destroy(graph);
    const shim::statistics counts = shim::counts();
    CHECK(counts.launches == 1);
    CHECK(counts.graph_launches == 2);
    CHECK(counts.kernels == 5);
    CHECK(counts.clears == 1);
    CHECK(counts.waits == 1);
    CHECK(counts.host_to_device == shim::copies{2, 20});
    CHECK(counts.device_to_host == shim::copies{3, 12});
    CHECK(counts.device_to_device == shim::copies{1, 12});
    CHECK(counts.host_to_host == shim::copies{1, 4});
    shim::reset_counts();
    CHECK(shim::counts().kernels == 0);
}

}  // namespace
}  // namespace dflash::test
