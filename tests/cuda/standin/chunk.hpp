#pragma once

#include "memory.hpp"

namespace standin {

// Returns null if it is not a handle, or was released.
Chunk* chunk_of(Memory& memory, AllocationHandle handle);
// Frees a chunk that has neither handles nor mappings.
void forget_unused(Memory& memory, AllocationHandle handle);

}  // namespace standin
