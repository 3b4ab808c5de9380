// Choosing on the device: drafts from the draft's logits, and how many of them stand. A round waits once, for a verdict
// of a few integers; drafts become readable with it.
//
// Greedy sampling and the temperature of categorical<philox_noise>, to the bit; filters, biases, penalties and masks
// are refused: they need the host.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include <dflash/concepts/acceptance.hpp>
#include <dflash/cuda/exact.hpp>
#include <dflash/cuda/kernels/choose.cuh>
#include <dflash/sampling/categorical.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/sampling/greedy.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

namespace detail {

/// What a kernel can follow of these options. Errors: config_error that names the option.
inline choice followed(const sampling_options& options, noise_key key) {
    if (options.top_k > 0) {
        raise<config_error>("top_k: got ", options.top_k, ", this backend samples with temperature only (0)");
    }
    if (options.top_p < 1) {
        raise<config_error>("top_p: got ", options.top_p, ", this backend samples with temperature only (1)");
    }
    if (options.min_p > 0) {
        raise<config_error>("min_p: got ", options.min_p, ", this backend samples with temperature only (0)");
    }
    if (!options.biases.empty()) {
        raise<config_error>("logit_bias: got ", options.biases.size(),
                            " entries, this backend samples with temperature only (0)");
    }
    return {options.temperature, key.seed};
}

inline choice followed(const greedy& /*sampler*/, noise_key /*key*/) {
    return {};
}
inline choice followed(const categorical<philox_noise>& sampler, noise_key key) {
    return followed(sampler.options(), key);
}

inline void choose_rows(const exact& backend, matrix_view<const float, device_space> logits, choice how, index position,
                        token_id* tokens, int* finite) {
    const index wanted = (logits.cols() + warp_size - 1) / warp_size * warp_size;
    const int threads = static_cast<int>((std::min)(index{choose_kernel::max_threads}, wanted));
    backend.context().launch<choose_kernel>(
        {{static_cast<unsigned>(logits.rows()), 1, 1}, threads, choose_kernel::shared_bytes(threads)},
        {logits.data(), logits.stride(), static_cast<int>(logits.cols()), how, position, tokens, finite});
}

}  // namespace detail

/// A draft_choice: the best token of every slot, or, with options, draws with the noise the target will draw with.
class draft_choice {
public:
    /// The best token of every slot.
    explicit draft_choice(exact backend) : backend_(std::move(backend)) {}
    /// Coupled drafts. Errors: config_error.
    draft_choice(exact backend, const sampling_options& options)
        : backend_(std::move(backend)), how_(detail::followed(options, {})) {
        check(options);
    }

    /// out.tokens: memory that kernels can write.
    void choose(matrix_view<const float, device_space> logits, index position, noise_key key,
                draft_output<device_space>& out) {
        DFLASH_EXPECTS(runtime::visible(out.tokens.data()), "draft_choice: the tokens lie where no kernel can write");
        how_.seed = key.seed;
        detail::choose_rows(backend_, logits, how_, position, out.tokens.data(), nullptr);
        out.count = logits.rows();
    }

private:
    exact backend_;
    choice how_;
};

/// The acceptance rule sample_and_match where the logits are. Samplers: greedy, categorical<philox_noise> with a
/// temperature only.
class sample_and_match {
public:
    static constexpr bool lossless = true;
    static constexpr bool same_tokens = true;

    explicit sample_and_match(exact backend) : backend_(std::move(backend)), verdict_(1) {}

    /// Waits for the verdict. Errors: config_error for options that need the host.
    template <class Sampler>
        requires requires(const Sampler& s) { detail::followed(s, noise_key{}); }
    [[nodiscard]] verdict accept(const accept_call<device_space>& call, const Sampler& sampler) const {
        const index rows = call.logits.rows();
        if (chosen_.size() < rows) {
            backend_.wait();
            chosen_ = buffer<token_id, device_space>(rows);
            finite_ = buffer<int, device_space>(rows);
        }
        DFLASH_EXPECTS(call.drafts.empty() || runtime::visible(call.drafts.data()),
                       "sample_and_match: the drafts lie where no kernel can read");
        detail::choose_rows(backend_, call.logits, detail::followed(sampler, call.noise), call.position, chosen_.data(),
                            finite_.data());
        backend_.context().launch<accept_kernel>({.blocks = {}, .threads = warp_size, .shared_bytes = 0},
                                                 {call.drafts.data(), chosen_.data(), finite_.data(),
                                                  static_cast<int>(size_of(call.drafts)), verdict_.data()});
        backend_.wait();
        const device_verdict& found = verdict_[0];
        return {.accepted = found.accepted, .next = found.next, .bad_row = found.bad_row};
    }

private:
    exact backend_;
    mutable buffer<token_id, device_space> chosen_;
    mutable buffer<int, device_space> finite_;
    mutable buffer<device_verdict, pinned_space> verdict_;
};

}  // namespace cuda

DFLASH_END_NAMESPACE
