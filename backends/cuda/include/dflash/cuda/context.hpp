// What copies of a backend share: a stream, the position that recorded graphs start from, and the graphs.
//
// A forward is a fixed list of kernels for its number of rows. The second time it is asked for it is recorded, later it
// is replayed: one launch, whatever its length. Positions are read from device memory and what a launch covers is
// bounded by the cache's capacity, so that a replay is right at every position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <dflash/concepts/replay.hpp>
#include <dflash/cuda/kernels/rows.cuh>
#include <dflash/cuda/memory.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// Serves one thread at a time.
class context {
public:
    /// Errors: backend_error when there is no device.
    context() {
        if (runtime::device_count() == 0) {
            raise<backend_error>("cuda: no device was found");
        }
        stream_ = runtime::create_stream();
        base_ = buffer<int, device_space>(1);
    }
    context(const context&) = delete;
    context& operator=(const context&) = delete;
    ~context() {
        forget();
        runtime::destroy(stream_);
    }

    [[nodiscard]] runtime::stream stream() const noexcept { return stream_; }

    template <class Kernel>
    void launch(const launch_shape& shape, const typename Kernel::arguments& arguments) const {
        runtime::launch<Kernel>(stream_, shape, arguments);
    }

    void wait() const { runtime::wait(stream_); }

    /// How kernels that are launched now learn a position.
    [[nodiscard]] position_ref at(index position) const noexcept {
        if (recording_) {
            return {base_.data(), static_cast<int>(position - origin_)};
        }
        return {nullptr, static_cast<int>(position)};
    }

    /// Whether launches are being recorded: they must cover every position the cache has room for.
    [[nodiscard]] bool recording() const noexcept { return recording_; }

    /// Does what body does. It may be recorded and replayed: body depends on nothing but the key and the position.
    template <class Body>
    void replay(const replay_key& key, index position, Body body) {
        const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const entry& e) { return e.key == key; });
        if (found == graphs_.end()) {
            body();  // whatever must be allocated is allocated now
            if (graphs_.size() >= most_graphs) {
                wait();
                forget();
            }
            graphs_.push_back({key, {}, false});
            return;
        }
        if (!found->ready) {
            record(*found, position, body);
        }
        runtime::launch<set_position_kernel>(stream_, {.blocks = {}, .threads = warp_size, .shared_bytes = 0},
                                             {base_.data(), static_cast<int>(position)});
        runtime::launch(found->graph, stream_);
    }

    /// Drops all graphs: memory they use is about to move. They must have been waited for.
    void forget() noexcept {
        for (entry& e : graphs_) {
            if (e.ready) {
                runtime::destroy(e.graph);
            }
        }
        graphs_.clear();
    }

    /// Memory of at least `size` elements that all operations share; growing it moves it.
    template <class T>
    T* scratch(buffer<T, device_space>& memory, index size) {
        if (memory.size() < size) {
            wait();
            forget();
            memory = buffer<T, device_space>();
            memory = buffer<T, device_space>(size);
        }
        return memory.data();
    }

    buffer<float, device_space> partial_o;
    buffer<float, device_space> partial_ml;

private:
    static constexpr std::size_t most_graphs = 128;

    struct entry {
        replay_key key;
        runtime::graph graph;
        bool ready;
    };

    template <class Body>
    void record(entry& e, index position, Body& body) {
        struct mode {
            context& self;
            ~mode() {
                if (self.recording_) {
                    runtime::abandon_capture(self.stream_);
                    self.recording_ = false;
                }
            }
        } const guard{*this};
        origin_ = position;
        runtime::begin_capture(stream_);
        recording_ = true;
        body();
        recording_ = false;
        e.graph = runtime::end_capture(stream_);
        e.ready = true;
    }

    runtime::stream stream_ = {};
    buffer<int, device_space> base_;
    index origin_ = 0;
    bool recording_ = false;
    std::vector<entry> graphs_;
};

}  // namespace cuda

DFLASH_END_NAMESPACE
