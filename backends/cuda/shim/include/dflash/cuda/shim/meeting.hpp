// Who of a block waits where, and whether that can work out. Used by both engines; not synchronised itself.
//
// All threads of a block must come to the same barrier, and all lanes of a warp to the same shuffle. Everything else is
// undefined on a device and a contract_error here, raised by the first thread that makes it certain.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include <dflash/cuda/execution.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda::shim {

inline constexpr int max_block_threads = 1024;
inline constexpr int max_block_warps = max_block_threads / warp_size;

enum class meeting : std::uint8_t { sync, shuffle, shuffle_down };

/// A call that threads must make together. The line of the source tells calls apart.
struct meeting_place {
    meeting kind = meeting::sync;
    int value_bytes = 0;
    int line = 0;

    friend bool operator==(const meeting_place&, const meeting_place&) = default;
};

/// Which block of the grid.
struct block_index {
    unsigned x = 0;
    unsigned y = 0;
    unsigned z = 0;
};

class meeting_points {
public:
    /// A new block, nobody waits.
    void begin(block_index block, int threads) noexcept {
        block_ = block;
        threads_ = threads;
        at_barrier_ = 0;
        ended_ = 0;
        for (warp& w : warps_) {
            w.at_barrier = w.shuffling = w.ended = 0;
        }
    }

    /// Returns whether `thread` was the last one to come: then all can go on.
    /// Errors: contract_error when the barrier can never be complete.
    bool arrive_at_barrier(int thread, meeting_place place) {
        warp& own = warp_of(thread);
        if (ended_ > 0) {
            raise_divergence(thread, &place, first(&warp::ended));
        }
        if (own.shuffling != 0) {
            raise_divergence(thread, &place, first_of(own, own.shuffling));
        }
        if (at_barrier_ > 0) {
            const int other = first(&warp::at_barrier);
            if (place_of(other) != place) {
                raise_divergence(thread, &place, other);
            }
        }
        place_of(thread) = place;
        own.at_barrier |= bit(thread);
        if (++at_barrier_ < threads_) {
            return false;
        }
        at_barrier_ = 0;
        for (warp& w : warps_) {
            w.at_barrier = 0;
        }
        return true;
    }

    /// Gives `value` to the warp and asks for that of lane `source`. Returns whether the warp is complete: then
    /// received() is valid for all its lanes. Errors: contract_error when the warp can never be complete.
    bool arrive_at_shuffle(int thread, meeting_place place, std::uint64_t value, int source) {
        warp& own = warp_of(thread);
        if (const std::uint32_t elsewhere = own.at_barrier | own.ended; elsewhere != 0) {
            raise_divergence(thread, &place, first_of(own, elsewhere));
        }
        if (own.shuffling != 0) {
            const int other = first_of(own, own.shuffling);
            if (place_of(other) != place) {
                raise_divergence(thread, &place, other);
            }
        }
        place_of(thread) = place;
        own.given[lane(thread)] = value;
        own.source[lane(thread)] = source;
        own.shuffling |= bit(thread);
        if (own.shuffling != all_lanes) {
            return false;
        }
        own.shuffling = 0;
        for (std::size_t i = 0; i < warp_size; ++i) {
            own.received[i] = own.given[static_cast<std::size_t>(own.source[i])];
        }
        return true;
    }

    /// What the last complete shuffle brought. Stays valid until the next one, which `thread` must join.
    [[nodiscard]] std::uint64_t received(int thread) const noexcept {
        return warps_[static_cast<std::size_t>(thread / warp_size)].received[lane(thread)];
    }

    /// Errors: contract_error when others wait for this thread.
    void end(int thread) {
        warp& own = warp_of(thread);
        own.ended |= bit(thread);
        ++ended_;
        if (own.shuffling != 0) {
            raise_divergence(thread, nullptr, first_of(own, own.shuffling));
        }
        if (at_barrier_ > 0) {
            raise_divergence(thread, nullptr, first(&warp::at_barrier));
        }
    }

private:
    static constexpr std::uint32_t all_lanes = 0xFFFFFFFFU;

    struct warp {
        std::uint32_t at_barrier = 0;  // masks of lanes
        std::uint32_t shuffling = 0;
        std::uint32_t ended = 0;
        std::array<std::uint64_t, warp_size> given{};
        std::array<std::uint64_t, warp_size> received{};
        std::array<int, warp_size> source{};
    };

    static std::size_t lane(int thread) noexcept { return static_cast<std::size_t>(thread % warp_size); }
    static std::uint32_t bit(int thread) noexcept { return std::uint32_t{1} << (thread % warp_size); }
    warp& warp_of(int thread) noexcept { return warps_[static_cast<std::size_t>(thread / warp_size)]; }
    meeting_place& place_of(int thread) noexcept { return places_[static_cast<std::size_t>(thread)]; }

    int first_of(const warp& w, std::uint32_t lanes) const noexcept {
        return static_cast<int>(&w - warps_.data()) * warp_size + std::countr_zero(lanes);
    }

    int first(std::uint32_t warp::* lanes) const noexcept {
        for (const warp& w : warps_) {
            if (w.*lanes != 0) {
                return first_of(w, w.*lanes);
            }
        }
        return -1;
    }

    static std::string words(int thread, const meeting_place* place) {
        if (place == nullptr) {
            return dflash::detail::text("thread ", thread, " has ended");
        }
        const char* call = place->kind == meeting::sync      ? "sync() in line "
                           : place->kind == meeting::shuffle ? "shuffle() in line "
                                                             : "shuffle_down() in line ";
        std::string out = dflash::detail::text("thread ", thread, " waits at ", call, place->line);
        if (place->kind != meeting::sync) {
            out += dflash::detail::text(" with ", place->value_bytes, " bytes");
        }
        return out;
    }

    [[noreturn]] void raise_divergence(int thread, const meeting_place* place, int other) {
        const bool other_ended = (warp_of(other).ended & bit(other)) != 0;
        raise<contract_error>("threads that must meet do not: in block (", block_.x, ", ", block_.y, ", ", block_.z,
                              ") ", words(thread, place), ", ", words(other, other_ended ? nullptr : &place_of(other)));
    }

    block_index block_;
    int threads_ = 0;
    int at_barrier_ = 0;
    int ended_ = 0;
    std::array<warp, max_block_warps> warps_{};
    std::array<meeting_place, max_block_threads> places_{};
};

}  // namespace cuda::shim

DFLASH_END_NAMESPACE
