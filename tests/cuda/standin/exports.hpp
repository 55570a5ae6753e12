#pragma once

#include "control.hpp"

// Declares every function of the interface: a definition that differs does not compile.
namespace standin {
namespace cu = tensorbus::device::cu;
using namespace cu;  // NOLINT: the parameter lists name its types

extern "C" {
#define STANDIN_DECLARE(name, symbol, parameters) STANDIN_EXPORT Result symbol parameters;
TENSORBUS_CUDA_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE
// Called by programs, not by Tensorbus.
STANDIN_EXPORT Result cuMemFreeAsync(DevicePtr address, Stream stream);
STANDIN_EXPORT Result cuMemAllocManaged(DevicePtr* address, std::size_t bytes, unsigned flags);
}

}  // namespace standin
