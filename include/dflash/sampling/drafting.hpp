// How a drafter that has logits of every slot chooses its tokens: the best ones, or draws.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <dflash/concepts/drafter.hpp>
#include <dflash/numerics/argmax.hpp>
#include <dflash/sampling/categorical.hpp>

DFLASH_BEGIN_NAMESPACE

/// Axioms
///   choose(logits, position, key, out) writes one token for each row, the row being the law of position + row, and the
///   law it was drawn from if it was drawn for rejection_sampling. It depends on nothing else.
template <class T, class Space = host_space>
concept draft_choice = requires(T& choice, matrix_view<const float, Space> logits, index position, noise_key key,
                                draft_output<Space>& out) { choice.choose(logits, position, key, out); };

/// The best token of every slot.
struct argmax_drafts {
    static void choose(matrix_view<const float> logits, index /*position*/, noise_key /*key*/, draft_output<>& out) {
        for (index i = 0; i < logits.rows(); ++i) {
            out.tokens[static_cast<std::size_t>(i)] =
                static_cast<token_id>(numerics::argmax(logits.row(i).data(), logits.cols()));
        }
        out.count = logits.rows();
    }
};

/// Draws with the very noise the target will draw with, for sample_and_match: where the laws are alike, so are the
/// tokens, with probability at least (1 - TV) / (1 + TV). Give it the target's sampling options.
template <noise_source Noise = philox_noise>
class coupled_drafts {
public:
    coupled_drafts() = default;
    /// Errors: config_error.
    explicit coupled_drafts(sampling_options options, Noise noise = {})
        : sampler_(std::move(options), std::move(noise)) {}

    void choose(matrix_view<const float> logits, index position, noise_key key, draft_output<>& out) {
        sampler_.reseed(key);
        for (index i = 0; i < logits.rows(); ++i) {
            const token_id token = sampler_.pick(logits.row(i), position + i);
            if (token == no_token) {
                return;  // every token is forbidden: what comes after has no sense
            }
            out.tokens[static_cast<std::size_t>(i)] = token;
            out.count = i + 1;
        }
    }

private:
    categorical<Noise> sampler_;
};

/// Draws with noise of its own and hands over the laws, for rejection_sampling. With top_k the laws are sparse.
template <noise_source Noise = philox_noise>
class sampled_drafts {
public:
    sampled_drafts() = default;
    /// Errors: config_error.
    explicit sampled_drafts(sampling_options options, Noise noise = {})
        : filter_(std::move(options)), noise_(std::move(noise)) {}

    void choose(matrix_view<const float> logits, index position, noise_key key, draft_output<>& out) {
        const auto vocab = static_cast<std::size_t>(logits.cols());
        const bool sparse = filter_.options().top_k > 0 || filter_.options().temperature == 0;
        weights_.resize(static_cast<std::size_t>(logits.rows()) * vocab);
        begins_.assign(1, 0);
        tokens_.clear();
        std::size_t kept = 0;  // entries in weights_
        for (index i = 0; i < logits.rows(); ++i) {
            scores_.assign(logits.row(i).begin(), logits.row(i).end());
            if (!filter_.apply(scores_)) {
                break;
            }
            out.tokens[static_cast<std::size_t>(i)] = noise_.draw(key, noise_stream::draft, position + i, scores_);
            out.count = i + 1;
            for (std::size_t t = 0; t < vocab; ++t) {
                const float weight = numerics::exp(scores_[t]);
                if (!sparse || weight > 0) {
                    weights_[kept++] = weight;
                }
                if (sparse && weight > 0) {
                    tokens_.push_back(static_cast<token_id>(t));
                }
            }
            begins_.push_back(static_cast<index>(kept));
        }
        if (sparse) {
            out.law = sparse_rows{begins_, tokens_, std::span<const float>(weights_).first(kept)};
        } else {
            out.law = matrix_view<const float>(weights_.data(), out.count, logits.cols());
        }
    }

private:
    token_filter filter_;
    Noise noise_;
    std::vector<float> scores_;     // (v)
    std::vector<float> weights_;    // dense (b-1, v), or sparse entries
    std::vector<index> begins_;     // sparse: (b)
    std::vector<token_id> tokens_;  // sparse entries
};

DFLASH_END_NAMESPACE
