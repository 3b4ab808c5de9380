// Reads the folders for the engine on a CUDA device.
#include <optional>

#include <dflash/io/load.hpp>

#include "common/cuda_engine.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

std::unique_ptr<engine> detail::make_cuda_engine(const engine_options& options) {
    check_cuda_options(options);
    require_cuda_device();
    const io::target_checkpoint target = io::load_target(options.target);
    if (options.draft.empty()) {
        return examples::make_cuda_engine(options, target.shape, target.weights, nullptr);
    }
    const io::draft_checkpoint draft = io::load_draft(options.draft, target.shape);
    const draft_to_pack packed{draft.shape, draft.weights};
    return examples::make_cuda_engine(options, target.shape, target.weights, &packed);
}

}  // namespace examples
DFLASH_END_NAMESPACE
