// Greedy sampling: the most likely token, the lowest id among equals.
#pragma once

#include <span>

#include <dflash/concepts/sampler.hpp>
#include <dflash/numerics/argmax.hpp>

DFLASH_BEGIN_NAMESPACE

/// Temperature 0. A token_sampler that needs no noise.
struct greedy {
    [[nodiscard]] token_id pick(std::span<const float> logits, index /*position*/) const {
        return static_cast<token_id>(numerics::argmax(logits.data(), size_of(logits)));
    }
};

DFLASH_END_NAMESPACE
