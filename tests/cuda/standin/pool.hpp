#pragma once

#include "call.hpp"

namespace standin {

// What a pool's allocation, or another process's that was imported, is freed by. The caller has
// seen that it is one.
void free_pooled(World& all, DevicePtr address);

}  // namespace standin
