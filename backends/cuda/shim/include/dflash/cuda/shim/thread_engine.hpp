// One block on threads of the system, one for each of its threads, kept for the next block.
//
// For the thread sanitizer: it is told that the start of a block, its barriers and its end order memory, and sees
// nothing of the locks that make them work. Shuffles order nothing, as on a device. So whatever a kernel shares between
// threads without a barrier is reported as a data race.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <dflash/cuda/shim/block.hpp>
#include <dflash/cuda/shim/sanitizers.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

class thread_engine final : public running_block {
public:
    /// The only one. Callers take turns.
    static thread_engine& instance() {
        static thread_engine engine;
        return engine;
    }

    /// Errors: what the kernel raises, contract_error when threads that must meet do not.
    void run(const block_job& job) {
        const std::lock_guard one_caller(callers_);
        while (static_cast<int>(workers_.size()) < job.threads) {
            workers_.emplace_back(&thread_engine::work, this, static_cast<int>(workers_.size()));
        }
        tsan_release(&start_);
        {
            const hidden_from_tsan hidden;
            std::unique_lock lock(mutex_);
            job_ = job;
            points_.begin(job.index, job.threads);
            running_ = job.threads;
            for (int i = 0; i < job.threads; ++i) {
                flag(go_, i) = true;
            }
            wake_all();
            done_.wait(lock, [this] { return running_ == 0; });
        }
        tsan_acquire(&end_);
        if (failure_ != nullptr) {
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
    }

    void sync(int thread, meeting_place place) override {
        // Barriers use two addresses in turn, so that a thread that is already at the next one orders nothing for those
        // that are still leaving this one.
        char* const barrier = &barriers_[flag(odd_barrier_, thread) ? 1 : 0];
        flag(odd_barrier_, thread) = !flag(odd_barrier_, thread);
        tsan_release(barrier);
        {
            const hidden_from_tsan hidden;
            std::unique_lock lock(mutex_);
            give_up_after_failure();
            if (points_.arrive_at_barrier(thread, place)) {
                for (int i = 0; i < job_.threads; ++i) {
                    flag(go_, i) = true;
                }
                wake_all();
            }
            wait(thread, lock);
        }
        tsan_acquire(barrier);
    }

    std::uint64_t exchange(int thread, meeting_place place, std::uint64_t value, int source) override {
        const hidden_from_tsan hidden;
        std::unique_lock lock(mutex_);
        give_up_after_failure();
        if (points_.arrive_at_shuffle(thread, place, value, source)) {
            const int first = thread / warp_size * warp_size;
            for (int i = first; i < first + warp_size; ++i) {
                flag(go_, i) = true;
            }
            warp_of(thread).notify_all();
        }
        wait(thread, lock);
        return points_.received(thread);
    }

private:
    using flags = std::array<char, max_block_threads>;

    thread_engine() = default;
    ~thread_engine() {
        {
            const hidden_from_tsan hidden;
            const std::lock_guard lock(mutex_);
            stop_ = true;
            wake_all();
        }
        for (std::thread& worker : workers_) {
            worker.join();
        }
    }

    static char& flag(flags& of, int thread) noexcept { return of[static_cast<std::size_t>(thread)]; }
    std::condition_variable& warp_of(int thread) noexcept {
        return warps_[static_cast<std::size_t>(thread / warp_size)];
    }

    void wake_all() noexcept {
        for (std::condition_variable& warp : warps_) {
            warp.notify_all();
        }
    }

    void wait(int thread, std::unique_lock<std::mutex>& lock) {
        warp_of(thread).wait(lock, [&] { return flag(go_, thread) || failure_ != nullptr; });
        flag(go_, thread) = false;
        give_up_after_failure();
    }

    /// After a failure nobody meets any more: some of those who waited have left.
    void give_up_after_failure() const {
        if (failure_ != nullptr) {
            throw cancelled{};
        }
    }

    void work(int thread) {
        for (;;) {
            {
                const hidden_from_tsan hidden;
                std::unique_lock lock(mutex_);
                warp_of(thread).wait(lock, [&] { return flag(go_, thread) || stop_; });
                if (stop_) {
                    return;
                }
                flag(go_, thread) = false;
            }
            tsan_acquire(&start_);
            flag(odd_barrier_, thread) = false;
            run_thread(thread);
            tsan_release(&end_);
            const hidden_from_tsan hidden;
            const std::lock_guard lock(mutex_);
            if (--running_ == 0) {
                done_.notify_one();
            }
        }
    }

    void run_thread(int thread) noexcept {
        try {
            job_.body(*this, thread, job_.arguments);
            const hidden_from_tsan hidden;
            const std::lock_guard lock(mutex_);
            points_.end(thread);
        } catch (const cancelled&) {  // NOLINT(bugprone-empty-catch): told to end, and ends here
        } catch (...) {
            const hidden_from_tsan hidden;
            const std::lock_guard lock(mutex_);
            if (failure_ == nullptr) {
                failure_ = std::current_exception();
            }
            wake_all();
        }
    }

    std::mutex callers_;
    std::mutex mutex_;
    std::array<std::condition_variable, max_block_warps> warps_;
    std::condition_variable done_;
    flags go_{};           // whether a thread that waits may go on
    flags odd_barrier_{};  // whether a thread has passed an odd number of barriers
    int running_ = 0;
    bool stop_ = false;
    std::exception_ptr failure_;
    char start_ = 0;  // addresses that stand for what orders memory
    char end_ = 0;
    std::array<char, 2> barriers_{};
    std::vector<std::thread> workers_;
};

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
