// A noise source that walks every branch instead of drawing one: the exact law of whatever program uses it.
//
// The noise of a (stream, position) is one number in [0, 1), of which only an interval is known. A choice cuts the
// interval at the running sum of its law, takes the pieces one after the other, and a later choice with the same noise
// sees what is left: shared noise is shared, in distribution and jointly.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <dflash/concepts/noise.hpp>
#include <dflash/numerics/exp.hpp>

namespace dflash::test {

class all_branches {
public:
    /// Runs `program` once for every branch; `leaf(probability)` is called after each run. Returns the runs.
    template <class Program, class Leaf>
    index walk(Program program, Leaf leaf) {
        path_.clear();
        index runs = 0;
        do {
            depth_ = 0;
            probability_ = 1;
            known_.clear();
            program();
            leaf(probability_);
            ++runs;
        } while (next());
        return runs;
    }

    /// One choice: a piece of the known interval for every option with weight. no_token when there is none.
    index choose(noise_stream stream, index position, std::span<const double> weights) {
        double total = 0;
        for (const double w : weights) {
            total += w;
        }
        if (!(total > 0)) {
            return no_token;
        }
        interval& known = known_.try_emplace({stream, position}).first->second;
        std::vector<std::pair<index, interval>> options;
        double sum = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            const double from = sum / total;
            sum += weights[i];
            const double to = i + 1 == weights.size() ? 1 : sum / total;
            const interval piece{from > known.from ? from : known.from, to < known.to ? to : known.to};
            if (weights[i] > 0 && piece.to > piece.from) {
                options.emplace_back(static_cast<index>(i), piece);
            }
        }
        if (depth_ == path_.size()) {
            path_.push_back({0, options.size()});
        }
        const auto& [option, piece] = options[path_[depth_++].taken];
        probability_ *= (piece.to - piece.from) / (known.to - known.from);
        known = piece;
        return option;
    }

private:
    struct interval {
        double from = 0;
        double to = 1;
    };
    struct fork {
        std::size_t taken;
        std::size_t count;
    };

    bool next() {
        while (!path_.empty() && path_.back().taken + 1 == path_.back().count) {
            path_.pop_back();
        }
        if (path_.empty()) {
            return false;
        }
        ++path_.back().taken;
        return true;
    }

    std::vector<fork> path_;
    std::size_t depth_ = 0;
    double probability_ = 1;
    std::map<std::pair<noise_stream, index>, interval> known_;
};

/// The noise_source that asks an all_branches.
struct branching_noise {
    all_branches* tree = nullptr;

    [[nodiscard]] token_id draw(noise_key key, noise_stream stream, index position,
                                std::span<const float> scores) const {
        std::vector<double> weights;
        for (const float s : scores) {
            weights.push_back(static_cast<double>(numerics::exp(s)));
        }
        return weighted(key, stream, position, weights);
    }
    [[nodiscard]] token_id weighted(noise_key /*key*/, noise_stream stream, index position,
                                    std::span<const double> weights) const {
        return static_cast<token_id>(tree->choose(stream, position, weights));
    }
    [[nodiscard]] bool happens(noise_key /*key*/, noise_stream stream, index position, double p) const {
        const double sure = p < 0 ? 0 : (p > 1 ? 1 : p);
        const double weights[2] = {sure, 1 - sure};
        return tree->choose(stream, position, weights) == 0;
    }
};

}  // namespace dflash::test
