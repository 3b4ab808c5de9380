// What an engine is given to run, and what a running thread sees of its engine.
#pragma once

#include <cstdint>

#include <dflash/cuda/shim/meeting.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

class running_block;

/// One block. The kernel's type is behind `body`.
struct block_job {
    void (*body)(running_block& block, int thread, const void* arguments) = nullptr;
    const void* arguments = nullptr;
    block_index index;
    int threads = 0;
    unsigned char* shared = nullptr;
    int shared_bytes = 0;
};

/// A block on an engine. sync and exchange return when the threads that must meet have met.
class running_block {
public:
    running_block(const running_block&) = delete;
    running_block& operator=(const running_block&) = delete;

    [[nodiscard]] const block_job& job() const noexcept { return job_; }
    virtual void sync(int thread, meeting_place place) = 0;
    /// Gives `value` to the warp and returns that of lane `source`.
    virtual std::uint64_t exchange(int thread, meeting_place place, std::uint64_t value, int source) = 0;

protected:
    running_block() = default;
    ~running_block() = default;

    /// Unwinds the threads that wait when another one has failed.
    struct cancelled {};

    block_job job_;
    meeting_points points_;
};

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
