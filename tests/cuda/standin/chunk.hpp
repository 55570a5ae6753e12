#pragma once

#include "memory.hpp"

namespace standin {

// Null where it is no handle, or has been released.
Chunk* chunk_of(Memory& memory, AllocationHandle handle);
// Frees a chunk with neither handles nor mappings.
void forget_unused(Memory& memory, AllocationHandle handle);

}  // namespace standin
