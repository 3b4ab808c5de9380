// Between prime and the end no round asks for memory: the linker puts a counter in front of the allocators.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <support/decoder_suite.hpp>

namespace {
std::size_t allocations = 0;
}

extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real__Znwm(std::size_t size);  // operator new
void* __wrap_malloc(std::size_t size);
void* __wrap_calloc(std::size_t count, std::size_t size);
void* __wrap__Znwm(std::size_t size);

void* __wrap_malloc(std::size_t size) {
    ++allocations;
    return __real_malloc(size);
}
void* __wrap_calloc(std::size_t count, std::size_t size) {
    ++allocations;
    return __real_calloc(count, size);
}
void* __wrap__Znwm(std::size_t size) {
    ++allocations;
    return __real__Znwm(size);
}
}

namespace dflash::test {

TEST_CASE("the counters count") {
    const std::size_t before = allocations;
    {
        const buffer<float> some(10);
        [[maybe_unused]] const void* volatile used = some.data();  // or the optimiser leaves it out
        CHECK(allocations == before + 1);
    }
    ::operator delete(::operator new(8));  // a new-expression could be optimised away
    CHECK(allocations == before + 2);
}

TEST_CASE("no allocation per round") {
    const std::vector<token_id> prompt{2};
    generation_limits limits;
    limits.max_new_tokens = 100;
    limits.stop_sequences = {{3, 3, 3}};
    for (const index block : {1, 2, 4, 16}) {
        for (const guess kind : every_guess) {
            probe seen;
            instrumented<model_t> model(model_t(), seen);
            scripted_drafter drafter({.stream = serial_stream(model, order_sampler{}, prompt, 120), .kind = kind}, 3);
            speculative_decoder decoder(model, drafter, fixed_block(block), order_sampler{});
            decoder.prime(prompt, limits);
            std::size_t before = allocations;
            while (!decoder.step().empty()) {
            }
            CHECK(allocations == before);
            CHECK(decoder.account().generated().size() == 100);
            // The second sequence finds its room already there, but for the account and the statistics.
            decoder.prime(prompt, limits);
            before = allocations;
            while (!decoder.step().empty()) {
            }
            CHECK(allocations == before);
        }
    }
    model_t model;
    serial_decoder serial(model);
    serial.prime(prompt, limits);
    const std::size_t before = allocations;
    while (!serial.step().empty()) {
    }
    CHECK(allocations == before);
}

}  // namespace dflash::test
