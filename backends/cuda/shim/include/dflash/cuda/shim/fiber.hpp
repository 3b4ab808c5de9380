// A fiber: a stack of its own that runs until it pauses, and goes on from there when it is resumed.
//
// The switch saves what the calling convention asks for and nothing else. ucontext, which is used where there is no
// such switch, makes two system calls each time.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include <dflash/contracts.hpp>
#include <dflash/cuda/shim/sanitizers.hpp>

#if defined(__ELF__) && defined(__x86_64__) && defined(__LP64__)
#define DFLASH_SHIM_SWITCH 1
// dflash_shim_switch(void** save, void* load): the stack pointer goes to *save, `load` becomes the stack pointer.
asm(R"(
.pushsection .text.dflash_shim_switch,"axG",@progbits,dflash_shim_switch,comdat
.weak dflash_shim_switch
.hidden dflash_shim_switch
.type dflash_shim_switch,@function
dflash_shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size dflash_shim_switch, . - dflash_shim_switch
.popsection
)");
#elif defined(__ELF__) && defined(__aarch64__) && defined(__LP64__)
#define DFLASH_SHIM_SWITCH 1
asm(R"(
.pushsection .text.dflash_shim_switch,"axG",@progbits,dflash_shim_switch,comdat
.weak dflash_shim_switch
.hidden dflash_shim_switch
.type dflash_shim_switch,@function
dflash_shim_switch:
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
.size dflash_shim_switch, . - dflash_shim_switch
.popsection
)");
#else
#define DFLASH_SHIM_SWITCH 0
#include <ucontext.h>
#endif

#if DFLASH_SHIM_SWITCH
extern "C" void dflash_shim_switch(void** save, void* load);
#endif

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

/// Memory for one stack, with a page below it that must not be touched.
class fiber_stack {
public:
    static constexpr std::size_t bytes = std::size_t{256} << 10;

    fiber_stack() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        memory_ = mmap(nullptr, page_ + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory_ == MAP_FAILED) {
            raise<backend_error>("cuda simulator: no memory for a stack of ", bytes, " bytes");
        }
        static_cast<void>(mprotect(memory_, page_, PROT_NONE));
    }
    ~fiber_stack() { munmap(memory_, page_ + bytes); }
    fiber_stack(const fiber_stack&) = delete;
    fiber_stack& operator=(const fiber_stack&) = delete;

    [[nodiscard]] unsigned char* bottom() const noexcept { return static_cast<unsigned char*>(memory_) + page_; }

private:
    std::size_t page_;
    void* memory_;
};

/// Runs work(argument) again and again, each time it is resumed after the last call has returned.
/// Belongs to the thread that made it. While `work` is paused, destroying the fiber drops its frames without unwinding.
class fiber {
public:
    using function = void (*)(fiber& self, void* argument);

    fiber(function work, void* argument) : work_(work), argument_(argument) {
#if DFLASH_SHIM_SWITCH
        prepare_stack();
#else
        if (getcontext(&inside_) != 0) {
            raise<backend_error>("cuda simulator: getcontext failed");
        }
        inside_.uc_stack.ss_sp = stack_.bottom();
        inside_.uc_stack.ss_size = fiber_stack::bytes;
        makecontext(&inside_, &fiber::entry, 0);
#endif
#if DFLASH_SHIM_TSAN
        tsan_inside_ = __tsan_create_fiber(0);
#endif
    }
    ~fiber() {
#if DFLASH_SHIM_TSAN
        __tsan_destroy_fiber(tsan_inside_);
#endif
    }
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;

    /// From outside: lets the fiber run until it pauses or its work returns.
    void resume() {
        entering() = this;
#if DFLASH_SHIM_TSAN
        tsan_outside_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
#if DFLASH_SHIM_ASAN
        void* fake_stack = nullptr;
        __sanitizer_start_switch_fiber(&fake_stack, stack_.bottom(), fiber_stack::bytes);
#endif
        change(outside_, inside_);
#if DFLASH_SHIM_ASAN
        __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
    }

    /// From inside: goes back to whoever resumed the fiber.
    void pause() {
#if DFLASH_SHIM_TSAN
        __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
#if DFLASH_SHIM_ASAN
        void* fake_stack = nullptr;
        __sanitizer_start_switch_fiber(&fake_stack, outside_bottom_, outside_bytes_);
#endif
        change(inside_, outside_);
#if DFLASH_SHIM_ASAN
        __sanitizer_finish_switch_fiber(fake_stack, &outside_bottom_, &outside_bytes_);
#endif
    }

private:
    static fiber*& entering() noexcept {
        static thread_local fiber* self = nullptr;
        return self;
    }

    static void entry() {
        fiber& self = *entering();
#if DFLASH_SHIM_ASAN
        __sanitizer_finish_switch_fiber(nullptr, &self.outside_bottom_, &self.outside_bytes_);
#endif
        for (;;) {
            self.work_(self, self.argument_);
            self.pause();
        }
    }

#if DFLASH_SHIM_SWITCH
    using context = void*;  // the stack pointer; the registers lie on the stack

    static void change(context& from, const context& to) { dflash_shim_switch(&from, to); }

    // As if the switch had been called from just before entry().
    void prepare_stack() noexcept {
        auto* words = reinterpret_cast<void**>(stack_.bottom() + fiber_stack::bytes);
#if defined(__x86_64__)
        constexpr int saved = 6;
        *--words = nullptr;  // where entry() would return to; below it the stack is as after a call
        *--words = reinterpret_cast<void*>(&fiber::entry);
        for (int i = 0; i < saved; ++i) {
            *--words = nullptr;
        }
#else
        constexpr int saved = 20;
        for (int i = 0; i < saved; ++i) {
            *--words = nullptr;
        }
        words[1] = reinterpret_cast<void*>(&fiber::entry);  // x30, the address to return to
#endif
        inside_ = static_cast<void*>(words);
    }
#else
    using context = ucontext_t;

    static void change(context& from, context& to) { static_cast<void>(swapcontext(&from, &to)); }
#endif

    fiber_stack stack_;
    function work_;
    void* argument_;
    context inside_{};
    context outside_{};
#if DFLASH_SHIM_ASAN
    const void* outside_bottom_ = nullptr;
    std::size_t outside_bytes_ = 0;
#endif
#if DFLASH_SHIM_TSAN
    void* tsan_inside_ = nullptr;
    void* tsan_outside_ = nullptr;
#endif
};

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
