// The simulated device: its memory, its streams, what has been counted.
//
// All calls take one lock. Device memory is ordinary memory, filled with 0xFF (NaN) when it is allocated. The address
// sanitizer reports whoever touches it while the device does nothing: on a real one the host cannot reach it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <dflash/contracts.hpp>
#include <dflash/cuda/shim/sanitizers.hpp>
#include <dflash/cuda/shim/settings.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

/// Blocks of memory that have been allocated and not released.
struct allocations {
    std::size_t count = 0;
    std::size_t bytes = 0;

    friend bool operator==(const allocations&, const allocations&) = default;
};

struct copies {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const copies&, const copies&) = default;
};

/// What has happened. Pinned memory counts as the host's. What a graph does counts each time it is launched.
struct statistics {
    std::uint64_t launches = 0;  ///< of kernels, one by one
    std::uint64_t graph_launches = 0;
    std::uint64_t kernels = 0;  ///< that ran, alone or in a graph
    std::uint64_t clears = 0;
    std::uint64_t waits = 0;
    copies host_to_device;
    copies device_to_host;
    copies device_to_device;
    copies host_to_host;
};

/// Something that a stream does.
using work = std::function<void()>;
using work_list = std::vector<work>;

struct graph_record {
    std::shared_ptr<const work_list> nodes;
};

struct stream_record {
    work_list waiting;  ///< lazy: not done yet
    bool capturing = false;
    work_list captured;
    std::string capture_failure;  ///< why the capture cannot become a graph; empty while it can
};

class machine {
public:
    static machine& instance() {
        static machine the_machine;
        return the_machine;
    }

    // ---- memory ----

    void* allocate(std::size_t bytes, bool pinned) {
        const std::lock_guard lock(mutex_);
        const char* const what = pinned ? "pinned memory" : "device memory";
        refuse_during_capture(what);
        if (settings.devices < 1) {
            raise<backend_error>("cuda: ", what, ": no CUDA-capable device is detected");
        }
        if (!pinned && bytes > settings.device_memory - (std::min)(settings.device_memory, live_[0].bytes)) {
            raise<backend_error>("cuda: device memory: ", bytes, " bytes: out of memory");
        }
        if (bytes == 0) {
            return nullptr;
        }
        auto* const memory = static_cast<unsigned char*>(::operator new(bytes, alignment));
        std::memset(memory, 0xFF, bytes);
        blocks_.emplace(memory, block{bytes, pinned});
        if (!pinned) {
            forbid_access(memory, bytes);
        }
        ++live_[pinned].count;
        live_[pinned].bytes += bytes;
        return memory;
    }

    /// As on a device this waits for all work, and cannot report what goes wrong: the next wait or end_capture does.
    void release(void* memory, bool pinned) noexcept {
        const std::lock_guard lock(mutex_);
        if (stream_record* const capturing = capturing_stream(); memory == nullptr || capturing != nullptr) {
            if (capturing != nullptr) {
                spoil_capture(*capturing, "release of memory");
            }
            return;
        }
        later([&] {
            const auto found = blocks_.find(static_cast<unsigned char*>(memory));
            if (found == blocks_.end() || found->second.pinned != pinned) {
                raise<backend_error>("cuda: release: no such ", pinned ? "pinned" : "device", " memory");
            }
            finish_all();
            --live_[pinned].count;
            live_[pinned].bytes -= found->second.bytes;
            allow_access(memory, found->second.bytes);
            blocks_.erase(found);
            ::operator delete(memory, alignment);
        });
    }

    [[nodiscard]] allocations live(bool pinned) {
        const std::lock_guard lock(mutex_);
        return live_[pinned];
    }

    [[nodiscard]] statistics counted() {
        const std::lock_guard lock(mutex_);
        return counted_;
    }

    void forget_counts() {
        const std::lock_guard lock(mutex_);
        counted_ = {};
    }

    // ---- streams ----

    stream_record* create_stream() {
        const std::lock_guard lock(mutex_);
        if (settings.devices < 1) {
            raise<backend_error>("cuda: stream: no CUDA-capable device is detected");
        }
        streams_.push_back(std::make_unique<stream_record>());
        return streams_.back().get();
    }

    void destroy(stream_record* s) noexcept {
        const std::lock_guard lock(mutex_);
        later([&] {
            check(s);
            finish(*s);
        });
        std::erase_if(streams_, [&](const std::unique_ptr<stream_record>& own) { return own.get() == s; });
    }

    void wait(stream_record* s) {
        const std::lock_guard lock(mutex_);
        s = own(s);
        check(s);
        refuse_during_capture("wait");
        ++counted_.waits;
        finish(*s);
        if (failure_ != nullptr) {
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
    }

    void wait_all() {
        const std::lock_guard lock(mutex_);
        refuse_during_capture("wait");
        ++counted_.waits;
        finish_all();
        if (failure_ != nullptr) {
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
    }

    [[nodiscard]] bool visible(const void* memory) noexcept {
        const std::lock_guard lock(mutex_);
        bool seen = false;
        later([&] { seen = find(memory, 0, "look at") != place::pageable; });
        return seen;
    }

    void copy(void* to, const void* from, std::size_t bytes, stream_record* s) {
        const std::lock_guard lock(mutex_);
        s = own(s);
        check(s);
        const place target = find(to, bytes, "copy to");
        const place source = find(from, bytes, "copy from");
        if (bytes == 0) {
            return;
        }
        if (s->capturing && (target == place::pageable || source == place::pageable)) {
            fail_capture(*s, "copy from or to pageable memory");
        }
        if (source == place::pageable && settings.lazy) {
            // Read at once, as the contract says.
            const auto* const first = static_cast<const unsigned char*>(from);
            put(*s, [this, to, bytes, target,
                     taken = std::make_shared<const std::vector<unsigned char>>(first, first + bytes)] {
                copy_now(to, taken->data(), bytes, target, place::pageable);
            });
        } else {
            put(*s, [this, to, from, bytes, target, source] { copy_now(to, from, bytes, target, source); });
        }
    }

    void clear(void* to, std::size_t bytes, stream_record* s) {
        const std::lock_guard lock(mutex_);
        s = own(s);
        check(s);
        if (bytes == 0) {
            return;
        }
        check_reachable(to, bytes, "clear");
        put(*s, [this, to, bytes] {
            check_reachable(to, bytes, "clear");
            ++counted_.clears;
            std::memset(to, 0, bytes);
        });
    }

    /// `kernel` runs the grid.
    void launch(stream_record* s, work kernel) {
        const std::lock_guard lock(mutex_);
        s = own(s);
        check(s);
        put(*s, [this, kernel = std::move(kernel), captured = s->capturing] {
            ++counted_.kernels;
            counted_.launches += captured ? 0U : 1U;
            kernel();
        });
    }

    // ---- graphs ----

    void begin_capture(stream_record* s) {
        const std::lock_guard lock(mutex_);
        check(s);
        refuse_during_capture("begin_capture");
        s->capturing = true;
    }

    graph_record* end_capture(stream_record* s) {
        const std::lock_guard lock(mutex_);
        check(s);
        if (!s->capturing) {
            raise<backend_error>("cuda: end_capture: the stream is not capturing");
        }
        s->capturing = false;
        work_list nodes = std::exchange(s->captured, {});
        const std::string why = std::exchange(s->capture_failure, {});
        if (!why.empty()) {
            raise<backend_error>("cuda: end_capture: no graph, because of a ", why, " during the capture");
        }
        graphs_.push_back(
            std::make_unique<graph_record>(graph_record{std::make_shared<const work_list>(std::move(nodes))}));
        return graphs_.back().get();
    }

    void abandon_capture(stream_record* s) noexcept {
        const std::lock_guard lock(mutex_);
        s->capturing = false;
        s->captured.clear();
        s->capture_failure.clear();
    }

    void launch(graph_record* g, stream_record* s) {
        const std::lock_guard lock(mutex_);
        s = own(s);
        check(s);
        check(g);
        if (s->capturing) {
            fail_capture(*s, "launch of a graph");
        }
        put(*s, [this, nodes = g->nodes] {
            ++counted_.graph_launches;
            for (const work& node : *nodes) {
                node();
            }
        });
    }

    void destroy(graph_record* g) noexcept {
        const std::lock_guard lock(mutex_);
        later([&] { check(g); });
        std::erase_if(graphs_, [&](const std::unique_ptr<graph_record>& own) { return own.get() == g; });
    }

private:
    enum class place : std::uint8_t { pageable, pinned, device };

    struct block {
        std::size_t bytes = 0;
        bool pinned = false;
    };

    /// While one lives, device memory can be reached.
    class device_works {
    public:
        explicit device_works(machine& of) noexcept : blocks_(of.blocks_) { each(allow_access); }
        ~device_works() { each(forbid_access); }
        device_works(const device_works&) = delete;
        device_works& operator=(const device_works&) = delete;

    private:
        void each([[maybe_unused]] void (*change)(const void*, std::size_t) noexcept) const noexcept {
            if constexpr (DFLASH_SHIM_ASAN) {
                for (const auto& [memory, own] : blocks_) {
                    if (!own.pinned) {
                        change(memory, own.bytes);
                    }
                }
            }
        }

        [[maybe_unused]] const std::map<unsigned char*, block>& blocks_;
    };

    static constexpr std::align_val_t alignment{256};

    machine() = default;

    template <class List, class Record>
    static bool contains(const List& list, const Record* record) {
        return std::any_of(list.begin(), list.end(), [&](const auto& own) { return own.get() == record; });
    }

    /// Null is the stream that everything has without asking.
    stream_record* own(stream_record* s) noexcept { return s == nullptr ? &default_ : s; }

    void check(const stream_record* s) const {
        if (s != &default_ && !contains(streams_, s)) {
            raise<backend_error>("cuda: no such stream");
        }
    }

    void check(const graph_record* g) const {
        if (!contains(graphs_, g)) {
            raise<backend_error>("cuda: no such graph");
        }
    }

    /// Where bytes of memory lie. Errors: backend_error when they go beyond what was allocated.
    place find(const void* memory, std::size_t bytes, const char* what) const {
        const auto* const first = static_cast<const unsigned char*>(memory);
        auto after = blocks_.upper_bound(const_cast<unsigned char*>(first));
        if (after != blocks_.begin()) {
            const auto& [start, own] = *std::prev(after);
            const auto offset = static_cast<std::size_t>(first - start);
            if (offset < own.bytes) {
                if (bytes > own.bytes - offset) {
                    raise<backend_error>("cuda: ", what, " ", own.pinned ? "pinned" : "device", " memory: ", bytes,
                                         " bytes at byte ", offset, " of ", own.bytes);
                }
                return own.pinned ? place::pinned : place::device;
            }
        }
        if (first == nullptr && bytes > 0) {
            raise<backend_error>("cuda: ", what, " a null pointer: ", bytes, " bytes");
        }
        return place::pageable;
    }

    void check_reachable(const void* memory, std::size_t bytes, const char* what) const {
        if (find(memory, bytes, what) == place::pageable) {
            raise<backend_error>("cuda: ", what, " of ", bytes, " bytes that are neither device nor pinned memory");
        }
    }

    void copy_now(void* to, const void* from, std::size_t bytes, place target, place source) {
        if (find(to, bytes, "copy to") != target || find(from, bytes, "copy from") != source) {
            raise<backend_error>("cuda: copy of ", bytes, " bytes: its memory has been released");
        }
        copies& direction = source == place::device
                                ? (target == place::device ? counted_.device_to_device : counted_.device_to_host)
                                : (target == place::device ? counted_.host_to_device : counted_.host_to_host);
        ++direction.count;
        direction.bytes += bytes;
        std::memmove(to, from, bytes);
    }

    /// In the order of the stream: into the capture, behind what waits, or at once.
    void put(stream_record& s, work todo) {
        if (s.capturing) {
            s.captured.push_back(std::move(todo));
        } else if (settings.lazy || !s.waiting.empty()) {
            s.waiting.push_back(std::move(todo));
        } else {
            const device_works now(*this);
            todo();
        }
    }

    /// Does what waits in a stream. After an error the rest is dropped.
    void finish(stream_record& s) {
        const work_list todo = std::exchange(s.waiting, {});
        const device_works now(*this);
        for (const work& w : todo) {
            w();
        }
    }

    void finish_all() {
        later([&] { finish(default_); });
        for (const std::unique_ptr<stream_record>& s : streams_) {
            later([&] { finish(*s); });
        }
    }

    /// Does something whose errors the next wait raises.
    template <class Action>
    void later(const Action& action) noexcept {
        try {
            action();
        } catch (...) {
            failure_ = failure_ == nullptr ? std::current_exception() : failure_;
        }
    }

    static void spoil_capture(stream_record& s, const char* what) {
        if (s.capture_failure.empty()) {
            s.capture_failure = what;
        }
    }

    /// Errors: always; and the capture is lost.
    [[noreturn]] static void fail_capture(stream_record& s, const char* what) {
        spoil_capture(s, what);
        raise<backend_error>("cuda: ", what, ": operation not permitted when stream is capturing");
    }

    stream_record* capturing_stream() const noexcept {
        for (const std::unique_ptr<stream_record>& s : streams_) {
            if (s->capturing) {
                return s.get();
            }
        }
        return nullptr;
    }

    void refuse_during_capture(const char* what) const {
        if (stream_record* const s = capturing_stream(); s != nullptr) {
            fail_capture(*s, what);
        }
    }

    std::mutex mutex_;
    std::map<unsigned char*, block> blocks_;
    std::array<allocations, 2> live_;  // of the device, pinned
    stream_record default_;
    std::vector<std::unique_ptr<stream_record>> streams_;
    std::vector<std::unique_ptr<graph_record>> graphs_;
    std::exception_ptr failure_;
    statistics counted_;
};

/// Device memory in use.
[[nodiscard]] inline allocations live_allocations() {
    return machine::instance().live(false);
}

/// Pinned memory in use.
[[nodiscard]] inline allocations live_pinned() {
    return machine::instance().live(true);
}

/// What has happened since the last reset_counts().
[[nodiscard]] inline statistics counts() {
    return machine::instance().counted();
}

inline void reset_counts() {
    machine::instance().forget_counts();
}

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
