// Chooses the block length that pays best: from what rounds cost and how often drafts stood lately.
//
// The choice cannot change the output, only the time. Given a recorded cost table it is a function of the accepted
// counts alone, so a run can be replayed; without one, costs are measured as rounds go by.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <dflash/concepts/block_policy.hpp>

DFLASH_BEGIN_NAMESPACE

/// Seconds (or any unit) of a round by its block length: entry b - 1 is drafting, verifying and committing b rows;
/// entry 0 is plain decoding.
using block_costs = std::vector<double>;

struct adaptive_options {
    block_costs costs{};       ///< recorded: used as they are; empty: measured
    double allowance = 0.015;  ///< share of plain decoding's time that may be lost in looking whether drafts pay
    double credit = 1.0;       ///< plain rounds that may be lost besides, and besides one block of the longest kind
};

/// A block_policy. Every round it takes the b with the most expected tokens per second, where slot i is expected to
/// stand as often as it did lately. Drafts that do not pay are left out (b = 1) and tried again now and then, within an
/// allowance: counted in the costs it knows, all texts together never take longer than plain decoding by more than the
/// allowance and one block of the longest kind, which is where it begins.
class adaptive_block {
public:
    /// max_block >= 1 counts the anchor. Errors: config_error (the block, a table of another length or with entries
    /// that are no positive numbers, shares that are none).
    explicit adaptive_block(index max_block, adaptive_options options = {})
        : max_(max_block), options_(std::move(options)) {
        if (max_block < 1) {
            raise<config_error>("block_size: got ", max_block, ", needs at least 1 (it counts the anchor)");
        }
        const index given = size_of(std::span(options_.costs));
        if (given != 0 && given != max_block) {
            raise<config_error>("costs: got ", given, " entries, needs one for each block length, ", max_block);
        }
        for (std::size_t i = 0; i < options_.costs.size(); ++i) {
            if (!(options_.costs[i] > 0 && options_.costs[i] < 1e30)) {
                raise<config_error>("costs: entry ", i, " is ", options_.costs[i], ", needs a positive number");
            }
        }
        const auto needs_share = [](const char* name, double got) {
            if (!(got >= 0 && got <= 1000)) {
                raise<config_error>(name, ": got ", got, ", needs 0 .. 1000");
            }
        };
        needs_share("allowance", options_.allowance);
        needs_share("credit", options_.credit);
        slots_.resize(static_cast<std::size_t>(max_block - 1), share(0.9));
        times_.resize(static_cast<std::size_t>(max_block));
        timed_.resize(static_cast<std::size_t>(max_block));
    }

    [[nodiscard]] index max_block() const noexcept { return max_; }

    [[nodiscard]] index next(index limit) {
        const index most = (std::min)(limit, max_);
        if (most == 1) {
            return 1;
        }
        if (measuring() && (times_[0].count() < 3 || since_plain_ >= plain_again)) {
            return 1;  // everything is judged beside a plain round
        }
        if (!looked_ && most == max_) {
            looked_ = true;  // a drafter may give less than it is asked for
            return max_;     // one look at a whole block tells of all slots
        }
        const index best = best_block(most);
        if (best > 1) {
            if (measuring() && since_trial_ >= trial_again) {
                if (const index untimed = length_to_time(most, best); untimed > 0) {
                    since_trial_ = 0;
                    return untimed;
                }
            }
            return best;
        }
        // Drafts do not pay. A look costs what it would lose if nothing stood; the allowance decides how often.
        const index look = (std::min)(most, look_block);
        return since_look_ > 0 && affordable(look) ? look : 1;
    }

    void record(const round_report& round) {
        const index b = (std::max)(index{1}, (std::min)(round.block, max_));
        double spent = cost(b);
        if (measuring()) {
            const double seconds = round.draft_seconds + round.verify_seconds;
            times_[at(b)].add(seconds);
            timed_[at(b)] = ++rounds_;
            since_trial_ += b > 1 ? 1 : 0;
            // The first block after plain rounds takes longer: the drafter catches up with them. A round that the
            // machine disturbed much is no news of the text.
            spent = b == 1 ? cost(1) : (std::min)(seconds, 3 * cost(b));
        }
        const double plain = cost(1);
        plain_time_ += static_cast<double>(round.committed) * plain;
        lost_ += spent - static_cast<double>(round.committed) * plain;
        since_plain_ = b == 1 ? 0 : since_plain_ + 1;
        since_look_ = b == 1 ? since_look_ + 1 : 0;
        for (index i = 0; i < (std::min)(round.drafted, max_ - 1); ++i) {
            if (i > round.accepted) {
                break;  // nobody looked at it
            }
            slots_[static_cast<std::size_t>(i)].add(i < round.accepted);
            any_.add(i < round.accepted);
        }
    }

    /// What a round of b rows is taken to cost.
    [[nodiscard]] double cost(index b) const {
        if (!measuring()) {
            return options_.costs[static_cast<std::size_t>(b - 1)];
        }
        // Between the nearest lengths that were measured; beyond the last as steeply as guessed.
        index below = b;
        while (below > 1 && !measured(below)) {
            --below;
        }
        if (measured(below) && below == b) {
            return times_[at(b)].least();
        }
        index above = b;
        while (above < max_ && !measured(above)) {
            ++above;
        }
        const double low = measured(below) ? times_[at(below)].least() : 1.0;
        if (!measured(above)) {
            return low * (1 + guessed_slope * static_cast<double>(b - below));
        }
        const double way = static_cast<double>(b - below) / static_cast<double>((std::max)(above - below, index{1}));
        return low + way * (times_[at(above)].least() - low);
    }

    /// The chance that slot i (0-based, the first draft is 0) stands where those before it do.
    [[nodiscard]] double acceptance(index i) const {
        const double everywhere = any_.mean(hope, 2.0);
        return slots_[static_cast<std::size_t>(i)].mean(everywhere, 1.0);
    }

    /// Tokens a round of b rows is expected to commit.
    [[nodiscard]] double expected(index b) const {
        double tokens = 1;
        double stands = 1;
        for (index i = 0; i + 1 < b; ++i) {
            stands *= acceptance(i);
            tokens += stands;
        }
        return tokens;
    }

private:
    static constexpr index look_block = 4;        // short, so that looking is cheap
    static constexpr index plain_again = 40;      // drafting rounds after which a plain one is timed again
    static constexpr index trial_again = 16;      // drafting rounds after which another length may be timed
    static constexpr index stale_after = 400;     // rounds after which a length's time is no longer trusted
    static constexpr double guessed_slope = 0.1;  // of a plain round, for each row more, until measured
    static constexpr double hope = 0.8;           // acceptance before anything was seen

    /// How often something happened, the newest times counting most.
    class share {
    public:
        explicit share(double memory) : memory_(memory) {}
        void add(bool happened) {
            seen_ = memory_ * seen_ + 1;
            sum_ = memory_ * sum_ + (happened ? 1 : 0);
        }
        /// Pulled towards `prior` as strongly as `weight` observations.
        [[nodiscard]] double mean(double prior, double weight) const {
            return (sum_ + weight * prior) / (seen_ + weight);
        }

    private:
        double memory_;
        double seen_ = 0;
        double sum_ = 0;
    };

    /// The least of the last five times: what disturbs a round only ever adds to it.
    class clock {
    public:
        void add(double seconds) {
            last_[static_cast<std::size_t>(count_ % 5)] = seconds;
            ++count_;
        }
        [[nodiscard]] index count() const noexcept { return count_; }
        [[nodiscard]] double least() const {
            return *std::min_element(last_.begin(), last_.begin() + (std::min)(count_, index{5}));
        }

    private:
        std::array<double, 5> last_{};
        index count_ = 0;
    };

    static std::size_t at(index b) { return static_cast<std::size_t>(b - 1); }
    [[nodiscard]] bool measuring() const noexcept { return options_.costs.empty(); }
    [[nodiscard]] bool measured(index b) const { return times_[at(b)].count() > 0; }

    [[nodiscard]] index best_block(index most) const {
        index best = 1;
        double rate = 1 / cost(1);
        double tokens = 1;
        double stands = 1;
        for (index b = 2; b <= most; ++b) {
            stands *= acceptance(b - 2);
            tokens += stands;
            if (tokens / cost(b) > rate && affordable(b)) {
                rate = tokens / cost(b);
                best = b;
            }
        }
        return best;
    }

    [[nodiscard]] bool fresh(index b) const { return measured(b) && rounds_ - timed_[at(b)] <= stale_after; }

    /// A length between two that were timed lately, or beyond the last, that would beat `best` if it cost as little as
    /// the shorter of them: the straight line that cost() draws may be far off, since kernels work in tiles. 0: there
    /// is none.
    [[nodiscard]] index length_to_time(index most, index best) const {
        const double rate = expected(best) / cost(best);
        index below = 1;
        for (index above = 2; above <= most + 1; ++above) {
            if (above <= most && !fresh(above)) {
                continue;
            }
            const index middle = (below + above) / 2;
            if (middle > below && expected(middle) / cost(below) > rate && affordable(middle)) {
                return middle;
            }
            below = above;
        }
        return 0;
    }

    /// Whether the allowance covers a round of b rows that commits one token.
    [[nodiscard]] bool affordable(index b) const {
        const double budget = cost(max_) - cost(1) + options_.credit * cost(1) + options_.allowance * plain_time_;
        return lost_ + (cost(b) - cost(1)) <= budget;
    }

    index max_;
    adaptive_options options_;
    std::vector<share> slots_;  // (B - 1)
    share any_{0.97};
    std::vector<clock> times_;  // (B)
    std::vector<index> timed_;  // (B): the round in which each length was timed last
    double plain_time_ = 0;     // what plain decoding would have taken
    double lost_ = 0;           // what was taken beyond it; negative: saved
    bool looked_ = false;       // a block of the longest kind was asked for
    index since_plain_ = 0;
    index since_look_ = 0;
    index since_trial_ = 0;
    index rounds_ = 0;
};

DFLASH_END_NAMESPACE
