#include <sys/mman.h>
#include <unistd.h>

#include "call.hpp"
#include "pool.hpp"
#include "stream.hpp"

// cuMemAlloc's memory, which has an address from the start.
namespace standin {
namespace {

Result allocate(Memory& memory, DevicePtr* address, std::size_t bytes, Context context,
                bool managed) {
  MemoryFile file = create_memory_file("legacy", bytes, context->physical);
  if (file.physical < 0) return Result::kOperatingSystem;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0);
  if (mapped == MAP_FAILED) return Result::kOutOfMemory;
  Range range;
  range.kind = Range::Kind::kAllocation;
  range.bytes = bytes;
  range.physical = context->physical;
  range.buffer_id = ++memory.last_buffer_id;
  range.file = std::move(file);
  range.context = context;
  range.managed = managed;
  *address = address_of(mapped);
  memory.ranges.emplace(*address, std::move(range));
  return Result::kSuccess;
}

Result allocate_counted(Memory& memory, DevicePtr* address, std::size_t bytes, Context context,
                        bool managed) {
  if (bytes == 0) return Result::kInvalidValue;
  if (!take_room(memory, context->physical, bytes)) return Result::kOutOfMemory;
  const Result result = allocate(memory, address, bytes, context, managed);
  if (result != Result::kSuccess) give_room(memory, context->physical, bytes);
  return result;
}

Range* allocation_at(World& all, DevicePtr address) {
  const auto found = all.memory.ranges.find(address);
  if (found == all.memory.ranges.end()) return nullptr;
  return found->second.kind == Range::Kind::kAllocation ? &found->second : nullptr;
}

}  // namespace

extern "C" Result cuMemAlloc_v2(DevicePtr* address, std::size_t bytes) {
  return call_in_context(__func__, [&](World& all, Context context) {
    return allocate_counted(all.memory, address, bytes, context, false);
  });
}

extern "C" Result cuMemAllocManaged(DevicePtr* address, std::size_t bytes, unsigned flags) {
  return call_in_context(__func__, [&](World& all, Context context) {
    if (flags != 1) return Result::kInvalidValue;  // CU_MEM_ATTACH_GLOBAL
    return allocate_counted(all.memory, address, bytes, context, true);
  });
}

extern "C" Result cuMemFree_v2(DevicePtr address) {
  if (const Result refused = admit(__func__); refused != Result::kSuccess) return refused;
  World& all = world();
  std::unique_lock lock(all.mutex);
  if (current_context() == nullptr) return Result::kInvalidContext;
  if (const auto at = all.memory.ranges.find(address);
      at != all.memory.ranges.end() && at->second.pool != nullptr) {
    require_untouched(all, address, at->second.bytes, "cuMemFree");  // it waits for no stream
    free_pooled(all, address);
    return Result::kSuccess;
  }
  const Range* range = allocation_at(all, address);
  if (range == nullptr) return Result::kInvalidValue;
  wait_for_streams(all, lock, range->context);
  range = allocation_at(all, address);
  if (range == nullptr) return Result::kInvalidValue;  // freed twice at once
  ::munmap(pointer_to(address), range->bytes);
  give_room(all.memory, range->physical, range->bytes);
  all.memory.ranges.erase(address);
  return Result::kSuccess;
}

extern "C" Result cuMemGetAddressRange_v2(DevicePtr* base, std::size_t* bytes, DevicePtr address) {
  return call_in_context(__func__, [&](World& all, Context) {
    const auto* const found = holder_of(all.memory.ranges, address, 1);
    if (found == nullptr) return Result{500};  // CUDA_ERROR_NOT_FOUND
    if (base != nullptr) *base = found->first;
    if (bytes != nullptr) *bytes = found->second.bytes;
    return Result::kSuccess;
  });
}

}  // namespace standin
