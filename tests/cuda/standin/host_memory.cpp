#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "call.hpp"
#include "stream.hpp"

// Host memory that devices may use.
namespace standin {
namespace {

constexpr Result kNotRegistered{713};  // CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED

bool overlaps(const Memory& memory, DevicePtr address, std::size_t bytes) {
  const auto next = memory.registrations.lower_bound(address + bytes);
  if (next == memory.registrations.begin()) return false;
  const auto& [base, registration] = *std::prev(next);
  return base + registration.bytes > address;
}

// The driver takes existing pages that it could write, or read if it is to read only.
bool is_accessible(DevicePtr address, DevicePtr end, bool read_only) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; address < end && std::getline(maps, line);) {
    DevicePtr from = 0;
    DevicePtr to = 0;
    char read = '-';
    char write = '-';
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %c%c", &from, &to, &read, &write) != 4)
      break;
    if (to <= address) continue;
    if (from > address || (read_only ? read != 'r' : write != 'w')) return false;
    address = to;
  }
  return address >= end;
}

}  // namespace

extern "C" Result cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned flags) {
  return call_in_context(__func__, [&](World& all, Context context) {
    if (!settings().has("host_register")) return Result::kNotSupported;
    const auto page = static_cast<DevicePtr>(::sysconf(_SC_PAGESIZE));
    const DevicePtr address = address_of(pointer);
    if (address == 0 || bytes == 0 || address % page != 0 || bytes % page != 0 ||
        (flags & ~(kHostRegisterPortable | kHostRegisterDeviceMap | kHostRegisterReadOnly)) != 0)
      return Result::kInvalidValue;
    const bool read_only = (flags & kHostRegisterReadOnly) != 0;
    if (read_only && !settings().has("read_only_pins")) return Result::kNotSupported;
    if (!is_accessible(address, address + bytes, read_only)) return Result::kInvalidValue;
    if (overlaps(all.memory, address, bytes)) return Result::kHostMemoryAlreadyRegistered;
    all.memory.registrations[address] = {bytes, flags, context, ++all.memory.last_buffer_id};
    return Result::kSuccess;
  });
}

extern "C" Result cuMemHostUnregister(void* pointer) {
  return call_in_context(__func__, [&](World& all, Context) {
    const auto found = all.memory.registrations.find(address_of(pointer));
    if (found == all.memory.registrations.end()) return kNotRegistered;
    require_untouched(all, found->first, found->second.bytes, "cuMemHostUnregister");
    all.memory.registrations.erase(found);
    return Result::kSuccess;
  });
}

extern "C" Result cuMemHostGetDevicePointer_v2(DevicePtr* address, void* pointer, unsigned flags) {
  return call_in_context(__func__, [&](World& all, Context context) {
    if (flags != 0 || !is_registered(all.memory, address_of(pointer), 1, context))
      return Result::kInvalidValue;
    *address = address_of(pointer);
    return Result::kSuccess;
  });
}

bool is_registered(Memory& memory, DevicePtr address, std::size_t bytes, Context context) {
  const auto* const found = holder_of(memory.registrations, address, bytes);
  if (found == nullptr) return false;
  const auto& [of, flags, by, id] = found->second;
  return (flags & kHostRegisterDeviceMap) != 0 &&
         (by == context || (flags & kHostRegisterPortable) != 0);
}

}  // namespace standin
