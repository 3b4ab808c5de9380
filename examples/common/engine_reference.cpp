#include <dflash/cpu/reference.hpp>

#include "common/engine_of.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

std::unique_ptr<engine> detail::make_reference_engine(const engine_options& options) {
    return std::make_unique<engine_of<cpu::reference<float>>>(options);
}

}  // namespace examples
DFLASH_END_NAMESPACE
