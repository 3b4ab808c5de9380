// Speculative sampling by rejection: a draft x drawn from q stands with probability min(1, p(x) / q(x)); one that does
// not is replaced by a draw from max(p - q, 0), normalised.
//
// The committed tokens follow p, the target's law, whatever q is, as long as q is what the draft was drawn from. They
// are other tokens than serial decoding with the same seed gives: for those, sample_and_match. Drafts that were not
// drawn count as drawn from a law with one token: they stand with probability p(x). Source: Leviathan, Kalman, Matias
// 2023; Chen et al. 2023.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <dflash/concepts/acceptance.hpp>
#include <dflash/numerics/argmax.hpp>
#include <dflash/sampling/filters.hpp>
#include <dflash/sampling/philox_noise.hpp>

DFLASH_BEGIN_NAMESPACE

/// The law of the target in numbers: p(i) = weight(i) / total. Scores as token_filter makes them. Shape: weights (v).
struct token_weights {
    std::vector<double> weight;
    double total = 0;

    /// From scores. Allocates the first time only.
    void assign(std::span<const float> scores) {
        weight.resize(scores.size());
        total = 0;
        for (std::size_t i = 0; i < scores.size(); ++i) {
            weight[i] = static_cast<double>(numerics::exp(scores[i]));
            total = total + weight[i];
        }
    }
    [[nodiscard]] double probability(token_id token) const { return weight[static_cast<std::size_t>(token)] / total; }
};

namespace detail {

/// The sum of row i and the weight of one token in it.
struct law_facts {
    double total = 0;
    double of_token = 0;
};
inline law_facts facts_of(const draft_law<>& law, index i, token_id token) {
    law_facts facts;
    visit_law(law, i, [&](token_id t, float w) {
        facts.total = facts.total + static_cast<double>(w);
        facts.of_token = t == token ? static_cast<double>(w) : facts.of_token;
    });
    return facts;
}

/// A law over another vocabulary would be read and written beyond the target's.
inline void check_law_tokens(const draft_law<>& law, index vocab) {
    if (law.sparse.rows() == 0) {
        if (law.dense.rows() > 0 && law.dense.cols() != vocab) {
            raise<contract_error>("rejection_sampling: got laws of ", law.dense.cols(), " tokens, the target has ",
                                  vocab);
        }
        return;
    }
    const index entries = (std::min)(size_of(law.sparse.tokens), size_of(law.sparse.weights));
    for (index i = 0; i < law.sparse.rows(); ++i) {
        const index first = law.sparse.begins[static_cast<std::size_t>(i)];
        const index end = law.sparse.begins[static_cast<std::size_t>(i + 1)];
        if (first < 0 || end < first || end > entries) {
            raise<contract_error>("rejection_sampling: law ", i, " has entries ", first, " to ", end, ", there are ",
                                  entries);
        }
        for (const token_id token :
             law.sparse.tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first))) {
            if (token < 0 || token >= vocab) {
                raise<contract_error>("rejection_sampling: law ", i, " names token ", token,
                                      ", the vocabulary is 0 .. ", vocab - 1);
            }
        }
    }
}

}  // namespace detail

/// An acceptance_rule for samplers whose law can be asked for. Lossless in law.
template <noise_source Noise = philox_noise>
class rejection_sampling {
public:
    static constexpr bool lossless = true;
    static constexpr bool same_tokens = false;

    rejection_sampling() = default;
    explicit rejection_sampling(Noise noise) : noise_(std::move(noise)) {}

    /// Errors: contract_error when the laws do not belong to the drafts: their number, their width, tokens outside the
    /// vocabulary, or a draft its law rules out.
    template <law_sampler Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        if (const index laws = call.draft_law.rows(); laws != 0 && laws != size_of(call.drafts)) {
            raise<contract_error>("rejection_sampling: got ", laws, " laws for ", call.drafts.size(), " drafts");
        }
        detail::check_law_tokens(call.draft_law, call.logits.cols());
        if constexpr (sequence_sampler<Sampler>) {
            Sampler ahead = sampler.fork();
            return walk(call, ahead, [&ahead](token_id token) { ahead.advance(token); });
        } else {
            return walk(call, sampler, [](token_id) {});
        }
    }

private:
    template <class Sampler, class Advance>
    verdict walk(const accept_call<>& call, const Sampler& sampler, Advance advance) const {
        const index drafts = size_of(call.drafts);
        for (index i = 0;; ++i) {
            const std::span<const float> row = call.logits.row(i);
            const index position = call.position + i;
            if (!numerics::all_finite(row.data(), size_of(row))) {
                return {.accepted = i, .next = -1, .bad_row = i};
            }
            if (i == drafts) {
                const token_id token = sampler.pick(row, position);
                return {.accepted = i,
                        .next = token,
                        .bad_row = token == no_token ? i : -1,
                        .fault = row_fault::nothing_left};
            }
            scores_.resize(row.size());
            if (!sampler.scores(row, scores_)) {
                return {.accepted = i, .next = -1, .bad_row = i, .fault = row_fault::nothing_left};
            }
            p_.assign(scores_);
            const token_id draft = call.drafts[static_cast<std::size_t>(i)];
            if (!stands(call, i, draft)) {
                return {.accepted = i, .next = redraw(call, i, draft), .bad_row = -1};
            }
            advance(draft);
        }
    }

    [[nodiscard]] bool stands(const accept_call<>& call, index i, token_id draft) const {
        double ratio = p_.probability(draft);
        if (call.draft_law.rows() > 0) {
            const detail::law_facts q = detail::facts_of(call.draft_law, i, draft);
            if (!(q.of_token > 0)) {
                raise<contract_error>("rejection_sampling: draft ", i, " is token ", draft,
                                      ", which the law it came with rules out");
            }
            ratio = ratio / (q.of_token / q.total);
        }
        return noise_.happens(call.noise, noise_stream::accept, call.position + i, ratio);
    }

    /// A draw from max(p - q, 0), or from p where that is zero (the two laws are equal but for rounding).
    [[nodiscard]] token_id redraw(const accept_call<>& call, index i, token_id draft) const {
        residual_.resize(p_.weight.size());
        for (std::size_t t = 0; t < residual_.size(); ++t) {
            residual_[t] = p_.weight[t] / p_.total;
        }
        const std::vector<double>& chosen = residual_;
        if (call.draft_law.rows() == 0) {
            residual_[static_cast<std::size_t>(draft)] = 0;
        } else {
            const double total = detail::facts_of(call.draft_law, i, draft).total;
            detail::visit_law(call.draft_law, i, [&](token_id t, float w) {
                double& r = residual_[static_cast<std::size_t>(t)];
                r = (std::max)(r - static_cast<double>(w) / total, 0.0);
            });
        }
        const bool empty = std::none_of(chosen.begin(), chosen.end(), [](double w) { return w > 0; });
        return noise_.weighted(call.noise, noise_stream::redraw, call.position + i, empty ? p_.weight : chosen);
    }

    Noise noise_;
    mutable std::vector<float> scores_;     // (v)
    mutable token_weights p_;               // (v)
    mutable std::vector<double> residual_;  // (v)
};

DFLASH_END_NAMESPACE
