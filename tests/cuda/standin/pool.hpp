#pragma once

#include "call.hpp"

namespace standin {

// Frees an allocation of a pool, or an imported one of another process. The caller has checked that
// it is one.
void free_pooled(World& all, DevicePtr address);

}  // namespace standin
