// The rule that chose the tapped layers of drafts trained by default, for checkpoints that do not say.
//
// Nobody may apply it silently: of the published checkpoints most were trained on other layers.
#pragma once

#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Layer ids for `draft_layers` taps of a target of `target_layers` layers: the middle one for a single draft layer,
/// else round_half_even(1 + i (L - 4) / (n - 1)). Errors: config_error when the numbers leave no room.
[[nodiscard]] inline std::vector<index> default_taps(index target_layers, index draft_layers) {
    if (draft_layers < 1 || target_layers < 1) {
        raise<config_error>("target_layer_ids: no default for ", draft_layers, " draft and ", target_layers,
                            " target layers");
    }
    if (draft_layers == 1) {
        return {target_layers / 2};
    }
    if (target_layers < 4) {
        raise<config_error>("target_layer_ids: the default rule needs at least 4 target layers, got ", target_layers);
    }
    std::vector<index> taps;
    taps.reserve(static_cast<std::size_t>(draft_layers));
    for (index i = 0; i < draft_layers; ++i) {
        const index numerator = i * (target_layers - 4);
        const index denominator = draft_layers - 1;
        index quotient = numerator / denominator;
        const index twice_rest = 2 * (numerator % denominator);
        // Half to even is decided on 1 + quotient, the number that is rounded.
        if (twice_rest > denominator || (twice_rest == denominator && (1 + quotient) % 2 != 0)) {
            ++quotient;
        }
        taps.push_back(1 + quotient);
    }
    return taps;
}

DFLASH_END_NAMESPACE
