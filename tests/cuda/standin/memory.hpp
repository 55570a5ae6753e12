#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "exports.hpp"

// Device memory is host memory in memfds, so that other processes can share it. The name of a memfd
// says what it is: "standin-cuda-vmm-<device>-<stamp>", with the device's number on the machine and
// a random stamp.
namespace standin {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct MemoryFile {
  OwnedFd fd;
  std::size_t bytes = 0;
  int physical = -1;  // -1: not one of ours
  std::uint64_t stamp = 0;
};

// Memory of cuMemCreate or of an import; freed with its last handle and mapping.
struct Chunk {
  MemoryFile file;
  HandleType handle_types = HandleType::kNone;
  bool imported = false;  // else counted as allocated here
  unsigned handles = 1;
  unsigned mappings = 0;
};

// The range of an address: a mapping of a chunk, an allocation of cuMemAlloc or of a pool, or
// memory of another process.
struct Range {
  enum class Kind { kMapping, kAllocation, kImport, kPooled, kPoolImport };
  Kind kind = Kind::kMapping;
  std::size_t bytes = 0;
  int physical = 0;
  std::uint64_t buffer_id = 0;
  AllocationHandle chunk = 0;            // of a mapping
  std::map<Device, AccessFlags> access;  // of a mapping
  MemoryFile file;                       // of the others
  Context context = nullptr;             // of the others
  unsigned opened = 0;                   // of an import
  bool closing = false;                  // the same
  bool managed = false;                  // of an allocation
  MemoryPool pool = nullptr;             // of a pool's, or one imported from it
  std::size_t offset = 0;                // the same
};

struct Registration {
  std::size_t bytes = 0;
  unsigned flags = 0;
  Context context = nullptr;
  std::uint64_t buffer_id = 0;
};

struct Memory {
  std::map<AllocationHandle, Chunk> chunks;
  std::map<DevicePtr, std::size_t> reservations;
  std::map<DevicePtr, Range> ranges;
  std::map<DevicePtr, Registration> registrations;
  std::map<int, std::size_t> allocated;  // bytes, by the device's number on the machine
  AllocationHandle last_handle = 0;
  std::uint64_t last_buffer_id = 0;
};

// Returns a map's entry (by base) that holds all of [address, address + bytes), or null.
template <typename Map>
auto* holder_of(Map& map, DevicePtr address, std::size_t bytes) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return static_cast<decltype(&*after)>(nullptr);
  auto& entry = *--after;
  const DevicePtr offset = address - entry.first;
  const std::size_t size = [&] {
    if constexpr (requires { entry.second.bytes; })
      return entry.second.bytes;
    else
      return entry.second;
  }();
  return offset < size && bytes <= size - offset ? &entry : nullptr;
}

// physical is -1 if the system refuses.
MemoryFile create_memory_file(const char* kind, std::size_t bytes, int physical);
// Takes the descriptor; physical is -1 if it is not a memory file of this kind.
MemoryFile adopt_memory_file(const char* kind, OwnedFd fd);

// Returns this process's ordinal of a device; -1 if it is not visible.
Device ordinal_of(int physical);
// Returns true, and counts the bytes, if so many more may be allocated there.
bool take_room(Memory& memory, int physical, std::size_t bytes);
void give_room(Memory& memory, int physical, std::size_t bytes);

inline DevicePtr address_of(const void* pointer) { return reinterpret_cast<DevicePtr>(pointer); }
inline void* pointer_to(DevicePtr address) { return reinterpret_cast<void*>(address); }
inline bool is_granular(std::uint64_t value) { return value % kGranularity == 0; }

}  // namespace standin
