// Declarations of a target, a drafter and a sampler that fit each other. Nothing is defined: nothing is run.
#pragma once

#include <dflash/decode/speculative.hpp>

namespace doubles {

struct cache {
    [[nodiscard]] dflash::index length() const;
    [[nodiscard]] dflash::index capacity() const;
    void crop(dflash::index n);
};

template <class Cache = cache, dflash::determinism Guarantee = dflash::determinism::batch_invariant>
struct model {
    using space = dflash::host_space;
    using cache_type = Cache;
    static constexpr dflash::determinism guarantee = Guarantee;
    [[nodiscard]] dflash::index vocab_size() const;
    [[nodiscard]] dflash::index max_positions() const;
    [[nodiscard]] Cache make_cache(dflash::index n);
    void forward(std::span<const dflash::token_id> tokens, Cache& state, const dflash::forward_output<>& out);
};

struct drafter_without_propose {
    [[nodiscard]] dflash::index feature_size() const;
    [[nodiscard]] dflash::index context_length() const;
    [[nodiscard]] dflash::index max_positions() const;
    void reserve(dflash::index n);
    void commit(std::span<const dflash::token_id> tokens, dflash::matrix_view<const float> features);
    void crop(dflash::index n);
    void reset();
};

struct drafter : drafter_without_propose {
    void propose(const dflash::draft_request& request, dflash::draft_output<>& out);
};

/// Uses the loop, so that all of it is compiled.
template <class Decoder>
dflash::generation_result run(Decoder& decoder) {
    const dflash::token_id prompt[] = {1};
    return decoder.generate(prompt);
}

}  // namespace doubles
