// What chooses the length of the next block.
//
// Axioms
//   1. next(n) returns a block length in 1 .. limit, where limit >= 1 is what budget and context leave room for.
//   2. It may use costs and acceptance so far, but never the tokens it would cut: the choice cannot change the output.
//   3. next(limit) <= max_block(), which is how many rows the decoder makes room for.
//   4. record(report) is called once after every round.
#pragma once

#include <concepts>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// What a round did, for policies and statistics.
struct round_report {
    index block = 1;      ///< rows verified, the anchor included
    index drafted = 0;    ///< drafts verified
    index accepted = 0;   ///< leading drafts that stand (before the cut at an end)
    index committed = 0;  ///< tokens committed (after the cut at an end)
    double draft_seconds = 0;
    double verify_seconds = 0;
};

template <class T>
concept block_policy = requires(T& policy, index limit, const round_report& report) {
    { policy.max_block() } -> std::convertible_to<index>;
    { policy.next(limit) } -> std::convertible_to<index>;
    policy.record(report);
};

/// Always the same length, or what there is room for.
class fixed_block {
public:
    /// block >= 1 counts the anchor. Errors: config_error.
    explicit fixed_block(index block) : block_(block) {
        if (block < 1) {
            raise<config_error>("block_size: got ", block, ", needs at least 1 (it counts the anchor)");
        }
    }

    [[nodiscard]] index next(index limit) const noexcept { return block_ < limit ? block_ : limit; }
    void record(const round_report&) noexcept {}
    [[nodiscard]] index max_block() const noexcept { return block_; }

private:
    index block_;
};

DFLASH_END_NAMESPACE
