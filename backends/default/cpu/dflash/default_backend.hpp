// Names the backend that programs use unless they choose one: here the exact CPU backend.
// Comes with the target dflash::default, so that a program is moved to another backend without changing its source.
#pragma once

#include <dflash/config.hpp>
#include <dflash/cpu/exact.hpp>

DFLASH_BEGIN_NAMESPACE

/// The backend chosen when the project was configured.
using default_backend = cpu::exact;

DFLASH_END_NAMESPACE
