#include "common/engine.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

std::unique_ptr<engine> detail::make_cuda_engine(const engine_options& /*options*/) {
    raise<config_error>("--backend cuda: this build has no CUDA backend; configure with cmake --preset cuda");
}

}  // namespace examples
DFLASH_END_NAMESPACE
