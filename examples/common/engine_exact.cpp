#include <dflash/default_backend.hpp>

#include "common/engine_of.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

std::unique_ptr<engine> make_engine(const engine_options& options) {
    return options.backend == backend_kind::exact ? detail::make_exact_engine(options)
                                                  : detail::make_reference_engine(options);
}

std::unique_ptr<engine> detail::make_exact_engine(const engine_options& options) {
    return std::make_unique<engine_of<default_backend>>(options);
}

}  // namespace examples
DFLASH_END_NAMESPACE
