// What the programs throw when the device they were asked to use is not there: run_program makes it exit status 3.
#pragma once

#include <dflash/contracts.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

class no_device : public backend_error {
public:
    using backend_error::backend_error;
};

}  // namespace examples
DFLASH_END_NAMESPACE
