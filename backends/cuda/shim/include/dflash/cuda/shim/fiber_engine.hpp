// One block on the calling thread, its threads one after another in a random order.
//
// A thread runs until it must wait; then another one that can go on is picked. Half of the blocks stay with a warp for
// as long as it can go on, the others change warps at every step: a warp that is far ahead and warps that are in step
// find different faults. A fiber that has run a thread to its end takes the next one, so that blocks without barriers
// need no switch at all.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <dflash/cuda/shim/block.hpp>
#include <dflash/cuda/shim/fiber.hpp>
#include <dflash/cuda/shim/settings.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

class fiber_engine final : public running_block {
public:
    /// One for each calling thread: fibers cannot move between threads.
    static fiber_engine& of_this_thread() {
        static thread_local fiber_engine engine;
        return engine;
    }

    /// Errors: what the kernel raises, contract_error when threads that must meet do not.
    void run(const block_job& job, order_generator& order, bool shuffle) {
        job_ = job;
        order_ = &order;
        shuffle_ = shuffle;
        stay_ = shuffle && order.next() % 2 == 0;
        failure_ = nullptr;
        picked_ = nobody;
        points_.begin(job.index, job.threads);
        fiber_of_.fill(nullptr);
        all_ready();
        while ((running_ = picked_ != nobody ? std::exchange(picked_, nobody) : pick()) != nobody) {
            fiber*& own = fiber_of(running_);
            if (own == nullptr) {
                own = idle_fiber();
            }
            own->resume();
            if (failure_ != nullptr) {
                unwind_waiting_threads();
                std::rethrow_exception(std::exchange(failure_, nullptr));
            }
        }
    }

    void sync(int thread, meeting_place place) override {
        if (points_.arrive_at_barrier(thread, place)) {
            all_ready();
        }
        wait(thread);
    }

    std::uint64_t exchange(int thread, meeting_place place, std::uint64_t value, int source) override {
        if (points_.arrive_at_shuffle(thread, place, value, source)) {
            const int warp = thread / warp_size;
            ready_[static_cast<std::size_t>(warp)] = 0xFFFFFFFFU;
            ready_warps_ |= std::uint32_t{1} << warp;
        }
        wait(thread);
        return points_.received(thread);
    }

private:
    static constexpr int nobody = -1;

    fiber_engine() = default;

    fiber*& fiber_of(int thread) noexcept { return fiber_of_[static_cast<std::size_t>(thread)]; }

    void all_ready() noexcept {
        const int warps = job_.threads / warp_size;
        ready_warps_ = static_cast<std::uint32_t>((std::uint64_t{1} << warps) - 1);
        for (int w = 0; w < warps; ++w) {
            ready_[static_cast<std::size_t>(w)] = 0xFFFFFFFFU;
        }
    }

    int any_bit(std::uint32_t mask) noexcept { return shuffle_ ? order_->any_bit(mask) : std::countr_zero(mask); }

    /// A thread that can go on, no longer counted among them; nobody when all have ended.
    int pick() noexcept {
        if (ready_warps_ == 0) {
            return nobody;
        }
        if (!stay_ || (ready_warps_ >> warp_ & 1U) == 0) {
            warp_ = any_bit(ready_warps_);
        }
        std::uint32_t& lanes = ready_[static_cast<std::size_t>(warp_)];
        const int lane = any_bit(lanes);
        lanes &= ~(std::uint32_t{1} << lane);
        if (lanes == 0) {
            ready_warps_ &= ~(std::uint32_t{1} << warp_);
        }
        return warp_ * warp_size + lane;
    }

    fiber* idle_fiber() {
        if (idle_.empty()) {
            fibers_.push_back(std::make_unique<fiber>(&fiber_engine::run_threads, this));
            idle_.reserve(fibers_.size());
            return fibers_.back().get();
        }
        fiber* const last = idle_.back();
        idle_.pop_back();
        return last;
    }

    void wait(int thread) {
        fiber_of(thread)->pause();
        if (cancelling_) {
            throw cancelled{};
        }
    }

    /// On a fiber: runs a thread from start to end, and then those that are picked as long as they are new.
    static void run_threads(fiber& self, void* engine) {
        fiber_engine& e = *static_cast<fiber_engine*>(engine);
        for (;;) {
            e.run_thread(e.running_, self);
            if (e.cancelling_ || e.failure_ != nullptr) {
                break;
            }
            const int next = e.pick();
            if (next == nobody || e.fiber_of(next) != nullptr) {
                e.picked_ = next;
                break;
            }
            e.running_ = next;
        }
        e.idle_.push_back(&self);
    }

    void run_thread(int thread, fiber& self) noexcept {
        fiber_of(thread) = &self;
        try {
            job_.body(*this, thread, job_.arguments);
            points_.end(thread);
        } catch (const cancelled&) {  // NOLINT(bugprone-empty-catch): told to end, and ends here
        } catch (...) {
            failure_ = std::current_exception();
        }
        fiber_of(thread) = nullptr;
    }

    void unwind_waiting_threads() {
        cancelling_ = true;
        for (fiber* waiting : fiber_of_) {
            if (waiting != nullptr) {
                waiting->resume();
            }
        }
        cancelling_ = false;
    }

    order_generator* order_ = nullptr;
    bool shuffle_ = true;
    bool stay_ = false;
    bool cancelling_ = false;
    int warp_ = 0;          // the warp of the last thread that was picked
    int running_ = nobody;  // the thread that runs
    int picked_ = nobody;   // the thread that must be resumed next
    std::uint32_t ready_warps_ = 0;
    std::array<std::uint32_t, max_block_warps> ready_{};  // masks of lanes that can go on
    std::array<fiber*, max_block_threads> fiber_of_{};  // where a thread waits; null before its start and after its end
    std::exception_ptr failure_;
    std::vector<std::unique_ptr<fiber>> fibers_;
    std::vector<fiber*> idle_;
};

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
