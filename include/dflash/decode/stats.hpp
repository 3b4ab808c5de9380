// What a generation did and how long it took. Plain numbers, finite for any run, also one without rounds.
#pragma once

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include <dflash/concepts/block_policy.hpp>
#include <dflash/decode/limits.hpp>
#include <dflash/decode/room.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Counts after every cut: only tokens that were delivered.
struct decode_stats {
    index tokens = 0;  ///< generated
    index rounds = 0;
    std::vector<index> acceptance_lengths;  ///< tokens committed per round; sum + 1 = tokens (prefill gives the first)
    std::vector<index> block_lengths;       ///< rows verified per round, the anchor included
    index drafted = 0;                      ///< drafts verified
    index accepted = 0;                     ///< drafts that were committed
    std::vector<index> slot_drafted;        ///< [i]: rounds that had a draft in slot i + 1
    std::vector<index> slot_accepted;       ///< [i]: rounds that committed it
    double prefill_seconds = 0;
    double draft_seconds = 0;
    double verify_seconds = 0;
    double sample_seconds = 0;

    /// Acceptance length tau: tokens per round, the bonus or correction included; 0 without rounds.
    [[nodiscard]] double mean_acceptance_length() const noexcept {
        index sum = 0;
        for (const index length : acceptance_lengths) {
            sum += length;
        }
        return rounds == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(rounds);
    }

    /// Acceptance ratio: committed drafts per draft; 0 without drafts.
    [[nodiscard]] double acceptance_ratio() const noexcept {
        return drafted == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(drafted);
    }

    /// Makes room, so that rounds do not allocate.
    void reserve(index rounds_at_most, index block) {
        constexpr index enough = 1 << 16;
        acceptance_lengths.reserve(static_cast<std::size_t>((std::min)(rounds_at_most, enough)));
        block_lengths.reserve(static_cast<std::size_t>((std::min)(rounds_at_most, enough)));
        slot_drafted.reserve(static_cast<std::size_t>((std::min)(block, enough)));
        slot_accepted.reserve(static_cast<std::size_t>((std::min)(block, enough)));
    }

    /// Makes room for one round more, so that record() cannot raise (with blocks of what reserve() was told, up to
    /// 65,536).
    void reserve_round() {
        detail::make_room(acceptance_lengths, 1);
        detail::make_room(block_lengths, 1);
    }

    /// Enters one round.
    void record(const round_report& round) {
        const index kept = (std::min)(round.accepted, round.committed);
        ++rounds;
        tokens += round.committed;
        acceptance_lengths.push_back(round.committed);
        block_lengths.push_back(round.block);
        drafted += round.drafted;
        accepted += kept;
        draft_seconds += round.draft_seconds;
        verify_seconds += round.verify_seconds;
        if (static_cast<index>(slot_drafted.size()) < round.drafted) {
            slot_drafted.resize(static_cast<std::size_t>(round.drafted), 0);
            slot_accepted.resize(static_cast<std::size_t>(round.drafted), 0);
        }
        for (index i = 0; i < round.drafted; ++i) {
            slot_drafted[static_cast<std::size_t>(i)] += 1;
            slot_accepted[static_cast<std::size_t>(i)] += i < kept ? 1 : 0;
        }
    }
};

/// A finished (or cancelled) generation.
struct generation_result {
    std::vector<token_id> tokens;  ///< generated, without the prompt
    finish_reason reason = finish_reason::running;
    decode_stats stats;
};

/// What one step delivered. Views are valid until the next step.
struct round_view {
    std::span<const token_id> tokens;  ///< committed by this step
    index accepted = 0;                ///< the first so many of them were drafts
    index drafted = 0;                 ///< drafts verified

    [[nodiscard]] bool empty() const noexcept { return tokens.empty(); }
};

namespace detail {

/// Seconds since construction or the last lap.
class stopwatch {
public:
    double lap() {
        const auto now = std::chrono::steady_clock::now();
        const double seconds = std::chrono::duration<double>(now - last_).count();
        last_ = now;
        return seconds;
    }

private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace detail

DFLASH_END_NAMESPACE
