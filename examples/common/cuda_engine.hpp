// The engine on a CUDA device, for models that have been read. A header without CUDA; cuda_engine.cu is behind it.
#pragma once

#include <memory>

#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>

#include "common/engine.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// A draft that has been read.
struct draft_to_pack {
    const draft_shape& shape;
    const draft_weights& weights;
};

/// Errors: config_error for options that this backend does not follow, by name.
void check_cuda_options(const engine_options& options);

/// Throws no_device when there is none.
void require_cuda_device();

/// Packs the weights on the device; the views may go away afterwards. `draft` may be null.
/// Errors: config_error, backend_error.
[[nodiscard]] std::unique_ptr<engine> make_cuda_engine(const engine_options& options, const target_shape& shape,
                                                       const target_weights& weights, const draft_to_pack* draft);

}  // namespace examples
DFLASH_END_NAMESPACE
