// --dump: the tensors of the first round as a safetensors file.
#pragma once
#include <string>
#include "common/engine.hpp"
DFLASH_BEGIN_NAMESPACE
namespace examples {
inline void write_first_round(const std::string&, const first_round&) {}
}  // namespace examples
DFLASH_END_NAMESPACE
