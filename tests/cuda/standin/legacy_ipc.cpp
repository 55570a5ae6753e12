#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>

#include "call.hpp"
#include "stream.hpp"

// cuMemAlloc's memory in other processes, by a name that any process may pass on.
namespace standin {
namespace {

struct Name {
  std::uint64_t stamp = 0;
  std::uint64_t bytes = 0;
  std::int32_t process = 0;
  std::int32_t fd = 0;
  std::int32_t physical = 0;
  std::array<std::byte, 36> unused{};
};
static_assert(sizeof(Name) == sizeof(IpcMemHandle));

// physical is -1 if the name is stale, or never was one.
MemoryFile open_file(const Name& name) {
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.fd);
  MemoryFile file = adopt_memory_file("legacy", OwnedFd(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
  const bool same =
      file.physical == name.physical && file.stamp == name.stamp && file.bytes == name.bytes;
  return same ? std::move(file) : MemoryFile{};
}

Result check(const Name& name, Context context) {
  if (name.process == ::getpid()) return Result::kInvalidContext;
  if (ordinal_of(name.physical) < 0) return Result::kInvalidDevice;
  if (name.physical != context->physical && !settings().has("peer"))
    return Result::kPeerAccessUnsupported;
  return Result::kSuccess;
}

Result open_import(Memory& memory, DevicePtr* address, const Name& name, Context context) {
  MemoryFile file = open_file(name);
  if (file.physical < 0) return Result::kInvalidValue;
  void* const mapped =
      ::mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0);
  if (mapped == MAP_FAILED) return Result::kOutOfMemory;
  Range range;
  range.kind = Range::Kind::kImport;
  range.bytes = file.bytes;
  range.physical = file.physical;
  range.buffer_id = ++memory.last_buffer_id;
  range.file = std::move(file);
  range.context = context;
  range.opened = 1;
  *address = address_of(mapped);
  memory.ranges.emplace(*address, std::move(range));
  return Result::kSuccess;
}

constexpr Result kAlreadyMapped{208};

// Memory that this context has open: counted, at the same address, unless it is being closed.
Result open_again(Memory& memory, DevicePtr* address, const Name& name, Context context) {
  for (auto& [base, range] : memory.ranges) {
    if (range.kind != Range::Kind::kImport || range.file.stamp != name.stamp ||
        range.context != context)
      continue;
    if (range.closing) return kAlreadyMapped;
    ++range.opened;
    *address = base;
    return Result::kSuccess;
  }
  return Result::kInvalidValue;
}

template <typename Body>
Result call_legacy(const char* symbol, Body&& body) {
  return call_in_context(symbol, [&](World& all, Context context) {
    return settings().has("legacy_ipc") ? body(all, context) : Result::kNotSupported;
  });
}

}  // namespace

extern "C" Result cuIpcGetMemHandle(IpcMemHandle* handle, DevicePtr address) {
  return call_legacy(__func__, [&](World& all, Context) {
    const auto* const found = holder_of(all.memory.ranges, address, 1);
    if (found == nullptr || found->second.kind != Range::Kind::kAllocation || found->second.managed)
      return Result::kInvalidValue;
    const MemoryFile& file = found->second.file;
    *handle = std::bit_cast<IpcMemHandle>(Name{.stamp = file.stamp,
                                               .bytes = file.bytes,
                                               .process = ::getpid(),
                                               .fd = file.fd.get(),
                                               .physical = file.physical});
    return Result::kSuccess;
  });
}

extern "C" Result cuIpcOpenMemHandle_v2(DevicePtr* address, IpcMemHandle handle, unsigned flags) {
  return call_legacy(__func__, [&](World& all, Context context) {
    if (flags != kIpcLazyPeerAccess) return Result::kInvalidValue;
    const Name name = std::bit_cast<Name>(handle);
    const Result again = open_again(all.memory, address, name, context);
    if (again != Result::kInvalidValue) return again;
    const Result refused = check(name, context);
    if (refused != Result::kSuccess) return refused;
    return open_import(all.memory, address, name, context);
  });
}

// The last close may wait for the device, as freeing does.
extern "C" Result cuIpcCloseMemHandle(DevicePtr address) {
  if (const Result refused = admit(__func__); refused != Result::kSuccess) return refused;
  World& all = world();
  std::unique_lock lock(all.mutex);
  const auto found = all.memory.ranges.find(address);
  if (found == all.memory.ranges.end() || found->second.kind != Range::Kind::kImport ||
      found->second.closing)
    return Result::kInvalidValue;
  if (--found->second.opened > 0) return Result::kSuccess;
  found->second.closing = true;
  require_untouched(all, address, found->second.bytes, "cuIpcCloseMemHandle");
  wait_for_streams(all, lock, found->second.context);
  ::munmap(pointer_to(address), found->second.bytes);
  all.memory.ranges.erase(found);
  return Result::kSuccess;
}

}  // namespace standin
