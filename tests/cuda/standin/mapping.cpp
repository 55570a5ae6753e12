#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "call.hpp"
#include "chunk.hpp"
#include "stream.hpp"

// Reserved addresses and the chunks mapped there.
namespace standin {
namespace {

Result reserve(Memory& memory, DevicePtr* address, std::size_t bytes, std::size_t alignment) {
  const std::size_t aligned = std::max(alignment, kGranularity);
  void* const room = ::mmap(nullptr, bytes + aligned, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return Result::kOutOfMemory;
  const DevicePtr start = address_of(room);
  *address = (start + aligned - 1) / aligned * aligned;
  if (*address > start) ::munmap(room, *address - start);
  ::munmap(pointer_to(*address + bytes), start + aligned - *address);
  memory.reservations.emplace(*address, bytes);
  return Result::kSuccess;
}

// Returns true if no range overlaps [address, address + bytes).
bool is_unmapped(const Memory& memory, DevicePtr address, std::size_t bytes) {
  const auto next = memory.ranges.lower_bound(address + bytes);
  if (next == memory.ranges.begin()) return true;
  const auto& [base, range] = *std::prev(next);
  return base + range.bytes <= address;
}

// Returns the mappings that exactly fill [address, address + bytes); none if they do not.
std::vector<DevicePtr> mappings_in(Memory& memory, DevicePtr address, std::size_t bytes) {
  std::vector<DevicePtr> bases;
  DevicePtr next = address;
  while (next < address + bytes) {
    const auto found = memory.ranges.find(next);
    if (found == memory.ranges.end() || found->second.kind != Range::Kind::kMapping) return {};
    bases.push_back(next);
    next += found->second.bytes;
  }
  return next == address + bytes ? bases : std::vector<DevicePtr>{};
}

void replace_by_nothing(DevicePtr address, std::size_t bytes) {
  if (::mmap(pointer_to(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    fail_test("an address range could not be unmapped");
}

// Returns what host code may do: the most that any device may.
int protection(const Range& range) {
  int allowed = 0;
  for (const auto& [device, flags] : range.access) allowed |= static_cast<int>(flags);
  if ((allowed & 2) != 0) return PROT_READ | PROT_WRITE;
  return allowed != 0 ? PROT_READ : PROT_NONE;
}

Result check(const AccessDesc& wanted, const Range& range) {
  if (wanted.location.type != LocationType::kDevice) return Result::kInvalidValue;
  if (!is_device(wanted.location.id)) return Result::kInvalidDevice;
  const bool own = ordinal_of(range.physical) == wanted.location.id;
  if (!own && !settings().has("peer")) return Result::kNotSupported;
  return Result::kSuccess;
}

Result set_access(Range& range, DevicePtr base, const AccessDesc* wanted, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) {
    const Result refused = check(wanted[index], range);
    if (refused != Result::kSuccess) return refused;
    range.access[wanted[index].location.id] = wanted[index].flags;
  }
  return ::mprotect(pointer_to(base), range.bytes, protection(range)) == 0
             ? Result::kSuccess
             : Result::kOperatingSystem;
}

Result map(Memory& memory, DevicePtr address, std::size_t bytes, AllocationHandle handle) {
  Chunk& chunk = memory.chunks.at(handle);
  if (::mmap(pointer_to(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, chunk.file.fd.get(),
             0) == MAP_FAILED)
    return Result::kOutOfMemory;
  ++chunk.mappings;
  Range range;
  range.bytes = bytes;
  range.physical = chunk.file.physical;
  range.buffer_id = ++memory.last_buffer_id;
  range.chunk = handle;
  memory.ranges.emplace(address, std::move(range));
  return Result::kSuccess;
}

}  // namespace

extern "C" Result cuMemAddressReserve(DevicePtr* address, std::size_t bytes, std::size_t alignment,
                                      DevicePtr, unsigned long long flags) {
  return call_for("vmm", __func__, [&](World& all) {
    if (bytes == 0 || !is_granular(bytes) || flags != 0 ||
        (alignment != 0 && !std::has_single_bit(alignment)))
      return Result::kInvalidValue;
    return reserve(all.memory, address, bytes, alignment);
  });
}

extern "C" Result cuMemAddressFree(DevicePtr address, std::size_t bytes) {
  return call_for("vmm", __func__, [&](World& all) {
    const auto found = all.memory.reservations.find(address);
    if (found == all.memory.reservations.end() || found->second != bytes ||
        !is_unmapped(all.memory, address, bytes))
      return Result::kInvalidValue;
    all.memory.reservations.erase(found);
    ::munmap(pointer_to(address), bytes);
    return Result::kSuccess;
  });
}

extern "C" Result cuMemMap(DevicePtr address, std::size_t bytes, std::size_t offset,
                           AllocationHandle handle, unsigned long long flags) {
  return call_for("vmm", __func__, [&](World& all) {
    const Chunk* const chunk = chunk_of(all.memory, handle);
    if (chunk == nullptr || bytes == 0 || !is_granular(bytes) || !is_granular(address) ||
        offset != 0 || flags != 0 || bytes > chunk->file.bytes ||
        holder_of(all.memory.reservations, address, bytes) == nullptr ||
        !is_unmapped(all.memory, address, bytes))
      return Result::kInvalidValue;
    return map(all.memory, address, bytes, handle);
  });
}

extern "C" Result cuMemUnmap(DevicePtr address, std::size_t bytes) {
  return call_for("vmm", __func__, [&](World& all) {
    const std::vector<DevicePtr> bases = mappings_in(all.memory, address, bytes);
    if (bases.empty()) return Result::kInvalidValue;
    require_untouched(all, address, bytes, "cuMemUnmap");
    replace_by_nothing(address, bytes);
    for (const DevicePtr base : bases) {
      const AllocationHandle handle = all.memory.ranges.at(base).chunk;
      all.memory.ranges.erase(base);
      --all.memory.chunks.at(handle).mappings;
      forget_unused(all.memory, handle);
    }
    return Result::kSuccess;
  });
}

extern "C" Result cuMemSetAccess(DevicePtr address, std::size_t bytes, const AccessDesc* wanted,
                                 std::size_t count) {
  return call_for("vmm", __func__, [&](World& all) {
    const std::vector<DevicePtr> bases = mappings_in(all.memory, address, bytes);
    if (bases.empty() || count == 0) return Result::kInvalidValue;
    for (const DevicePtr base : bases) {
      const Result refused = set_access(all.memory.ranges.at(base), base, wanted, count);
      if (refused != Result::kSuccess) return refused;
    }
    return Result::kSuccess;
  });
}

}  // namespace standin
