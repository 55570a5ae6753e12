#include "chunk.hpp"

#include <fcntl.h>

#include "call.hpp"

// Chunks of memory without an address: made, released, sent to another process.
namespace standin {
namespace {

Result check(const AllocationProp& wanted) {
  if (wanted.type != AllocationType::kPinned || wanted.win32_meta_data != nullptr ||
      wanted.location.type != LocationType::kDevice)
    return Result::kInvalidValue;
  if (!is_device(wanted.location.id)) return Result::kInvalidDevice;
  if (wanted.requested_handle_types == HandleType::kNone) return Result::kSuccess;
  if (wanted.requested_handle_types != HandleType::kPosixFd) return Result::kInvalidValue;
  return settings().has("posix_fd") ? Result::kSuccess : Result::kNotSupported;
}

AllocationHandle add_chunk(Memory& memory, Chunk chunk) {
  memory.chunks.emplace(++memory.last_handle, std::move(chunk));
  return memory.last_handle;
}

Result create(Memory& memory, AllocationHandle* handle, std::size_t bytes,
              const AllocationProp& wanted) {
  const int physical = settings().physical[static_cast<std::size_t>(wanted.location.id)];
  if (!take_room(memory, physical, bytes)) return Result::kOutOfMemory;
  MemoryFile file = create_memory_file("vmm", bytes, physical);
  if (file.physical < 0) {
    give_room(memory, physical, bytes);
    return Result::kOperatingSystem;
  }
  Chunk chunk;
  chunk.file = std::move(file);
  chunk.handle_types = wanted.requested_handle_types;
  *handle = add_chunk(memory, std::move(chunk));
  return Result::kSuccess;
}

Result import(Memory& memory, AllocationHandle* handle, int fd) {
  MemoryFile file = adopt_memory_file("vmm", OwnedFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)));
  if (file.physical < 0) return Result::kInvalidValue;
  if (ordinal_of(file.physical) < 0) return Result::kInvalidDevice;
  Chunk chunk;
  chunk.file = std::move(file);
  chunk.handle_types = HandleType::kPosixFd;
  chunk.imported = true;
  *handle = add_chunk(memory, std::move(chunk));
  return Result::kSuccess;
}

}  // namespace

Chunk* chunk_of(Memory& memory, AllocationHandle handle) {
  const auto found = memory.chunks.find(handle);
  return found != memory.chunks.end() && found->second.handles > 0 ? &found->second : nullptr;
}

void forget_unused(Memory& memory, AllocationHandle handle) {
  const Chunk& chunk = memory.chunks.at(handle);
  if (chunk.handles > 0 || chunk.mappings > 0) return;
  if (!chunk.imported) give_room(memory, chunk.file.physical, chunk.file.bytes);
  memory.chunks.erase(handle);
}

extern "C" Result cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProp* wanted,
                                                Granularity) {
  return call_for("vmm", __func__, [&](World&) {
    *bytes = kGranularity;
    return check(*wanted);
  });
}

extern "C" Result cuMemCreate(AllocationHandle* handle, std::size_t bytes,
                              const AllocationProp* wanted, unsigned long long flags) {
  return call_for("vmm", __func__, [&](World& all) {
    if (bytes == 0 || !is_granular(bytes) || flags != 0) return Result::kInvalidValue;
    const Result refused = check(*wanted);
    return refused == Result::kSuccess ? create(all.memory, handle, bytes, *wanted) : refused;
  });
}

extern "C" Result cuMemRelease(AllocationHandle handle) {
  return call_for("vmm", __func__, [&](World& all) {
    Chunk* const chunk = chunk_of(all.memory, handle);
    if (chunk == nullptr) return Result::kInvalidValue;
    --chunk->handles;
    forget_unused(all.memory, handle);
    return Result::kSuccess;
  });
}

extern "C" Result cuMemExportToShareableHandle(void* fd, AllocationHandle handle, HandleType type,
                                               unsigned long long flags) {
  return call_for("posix_fd", __func__, [&](World& all) {
    const Chunk* const chunk = chunk_of(all.memory, handle);
    if (chunk == nullptr || type != HandleType::kPosixFd || flags != 0 ||
        chunk->handle_types != type)
      return Result::kInvalidValue;
    const int copy = ::fcntl(chunk->file.fd.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return Result::kOperatingSystem;
    *static_cast<int*>(fd) = copy;
    return Result::kSuccess;
  });
}

extern "C" Result cuMemImportFromShareableHandle(AllocationHandle* handle, void* fd,
                                                 HandleType type) {
  return call_for("posix_fd", __func__, [&](World& all) {
    if (type != HandleType::kPosixFd) return Result::kInvalidValue;
    // The descriptor itself, in the shape of a pointer.
    return import(all.memory, handle, static_cast<int>(reinterpret_cast<std::intptr_t>(fd)));
  });
}

extern "C" Result cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  return call_for("vmm", __func__, [&](World& all) {
    const auto* const found = holder_of(all.memory.ranges, address_of(address), 1);
    if (found == nullptr || found->second.kind != Range::Kind::kMapping)
      return Result::kInvalidValue;
    *handle = found->second.chunk;
    ++all.memory.chunks.at(*handle).handles;
    return Result::kSuccess;
  });
}

}  // namespace standin
