// Sampling from the filtered law with keyed noise: the same logits, seed and position give the same token.
#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include <dflash/concepts/sampler.hpp>
#include <dflash/sampling/filters.hpp>
#include <dflash/sampling/philox_noise.hpp>
#include <dflash/sampling/scratch.hpp>

DFLASH_BEGIN_NAMESPACE

/// A token_sampler and law_sampler. Draws from the law that token_filter makes of the logits, with the noise of the
/// `token` stream; temperature 0 takes the best token. It holds scratch memory: one per sequence and thread.
template <noise_source Noise = philox_noise>
class categorical {
public:
    categorical() = default;
    /// Errors: config_error for options that make no sense.
    explicit categorical(sampling_options options, Noise noise = {})
        : filter_(std::move(options)), noise_(std::move(noise)) {}

    void reseed(noise_key key) noexcept { key_ = key; }
    [[nodiscard]] const sampling_options& options() const noexcept { return filter_.options(); }

    /// logits (v): finite, or -inf for what is forbidden. Errors: config_error for a bias outside the vocabulary.
    [[nodiscard]] token_id pick(std::span<const float> logits, index position) const {
        const sampling_options& options = filter_.options();
        if (options.temperature == 0 && options.biases.empty()) {  // what the filter would do, without the copy
            const index best = numerics::argmax(logits.data(), size_of(logits));
            return logits[static_cast<std::size_t>(best)] > -numerics::infinity ? static_cast<token_id>(best)
                                                                                : no_token;
        }
        const std::span<float> law = make_room(logits.size());
        return scores(logits, law) ? noise_.draw(key_, noise_stream::token, position, law) : no_token;
    }

    /// The law of pick(). Shapes: logits, out (v).
    [[nodiscard]] bool scores(std::span<const float> logits, std::span<float> out) const {
        std::copy(logits.begin(), logits.end(), out.begin());
        return filter_.apply(out);
    }

private:
    std::span<float> make_room(std::size_t vocab) const {
        scratch_.get().resize(vocab);
        return scratch_.get();
    }

    mutable token_filter filter_;  // its scratch changes, its answers do not
    Noise noise_;
    noise_key key_;
    mutable detail::scratch<float> scratch_;  // (v)
};

DFLASH_END_NAMESPACE
