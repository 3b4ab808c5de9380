// The two casts: a target and a draft, small enough for pencil and paper, or of the sizes of the document. Both are
// ordinary weights in ordinary shapes; the library does not know that it plays.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>
#include <dflash/numerics/rope.hpp>

#include "walkthrough/store.hpp"
#include "walkthrough/story.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

struct cast {
    std::string name;
    bool on_paper = false;  ///< every number is a fraction
    target_shape target;
    target_weights target_tensors;
    draft_shape draft;
    draft_weights draft_tensors;
    numerics::rope_table rotations;       ///< of both models
    bool inject_rotations = false;        ///< they are hand-made
    std::vector<std::string> confession;  ///< what was chosen so that the story happens
    tensor_store store;
};

/// d = 4, weights of {0, 1/2, 1, -1}, quarter turns: everything can be checked on paper.
[[nodiscard]] std::shared_ptr<const cast> pencil_cast();

/// The document's sizes: 12 layers, d = 512, 8 heads of 64; taps 3, 7, 11; weights from an integer hash.
[[nodiscard]] std::shared_ptr<const cast> seed_cast();

/// By name. Errors: config_error.
[[nodiscard]] std::shared_ptr<const cast> find_cast(std::string_view name);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
