// What the sanitizers must be told about the simulator; nothing in builds without them.
#pragma once

#include <cstddef>

#include <dflash/vocabulary.hpp>

#if defined(__has_feature)
#define DFLASH_SHIM_HAS_FEATURE(feature) __has_feature(feature)
#else
#define DFLASH_SHIM_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || DFLASH_SHIM_HAS_FEATURE(address_sanitizer)
#define DFLASH_SHIM_ASAN 1
#include <sanitizer/asan_interface.h>
#else
#define DFLASH_SHIM_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || DFLASH_SHIM_HAS_FEATURE(thread_sanitizer)
#define DFLASH_SHIM_TSAN 1
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#else
#define DFLASH_SHIM_TSAN 0
#endif

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

/// Any access to this memory is reported by the address sanitizer, until allow_access of the same bytes.
inline void forbid_access([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if DFLASH_SHIM_ASAN
    __asan_poison_memory_region(memory, bytes);
#endif
}

inline void allow_access([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if DFLASH_SHIM_ASAN
    __asan_unpoison_memory_region(memory, bytes);
#endif
}

/// While one lives, the thread sanitizer sees neither the accesses nor the locks of this thread: the simulator's own
/// bookkeeping must not order what a kernel's barriers do not order.
class hidden_from_tsan {
public:
#if DFLASH_SHIM_TSAN
    hidden_from_tsan() noexcept {
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~hidden_from_tsan() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    }
#else
    hidden_from_tsan() noexcept {}  // not defaulted: an unused object would be warned about
    ~hidden_from_tsan() {}
#endif
    hidden_from_tsan(const hidden_from_tsan&) = delete;
    hidden_from_tsan& operator=(const hidden_from_tsan&) = delete;
};

/// What this thread did so far is before what a thread does after tsan_acquire of the same address.
inline void tsan_release([[maybe_unused]] void* address) noexcept {
#if DFLASH_SHIM_TSAN
    __tsan_release(address);
#endif
}

inline void tsan_acquire([[maybe_unused]] void* address) noexcept {
#if DFLASH_SHIM_TSAN
    __tsan_acquire(address);
#endif
}

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
