#include <dflash/default_backend.hpp>

#include "common/engine_of.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

std::unique_ptr<engine> make_engine(const engine_options& options) {
    switch (options.backend) {
        case backend_kind::exact: return detail::make_exact_engine(options);
        case backend_kind::reference: return detail::make_reference_engine(options);
        case backend_kind::cuda: return detail::make_cuda_engine(options);
    }
    raise<config_error>("backend: got ", static_cast<int>(options.backend), ", which is none");
}

std::unique_ptr<engine> detail::make_exact_engine(const engine_options& options) {
    return std::make_unique<engine_of<default_backend>>(options);
}

}  // namespace examples
DFLASH_END_NAMESPACE
