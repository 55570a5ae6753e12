#include "memory.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "world.hpp"

namespace standin {

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) ::close(fd_);
}

MemoryFile create_memory_file(const char* kind, std::size_t bytes, int physical) {
  std::uint64_t stamp = 0;
  if (::getrandom(&stamp, sizeof stamp, 0) != sizeof stamp) return {};
  std::array<char, 128> name{};
  std::snprintf(name.data(), name.size(), "standin-cuda-%s-%d-%016" PRIx64, kind, physical, stamp);
  OwnedFd fd(::memfd_create(name.data(), MFD_CLOEXEC));
  if (fd.get() < 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return {};
  return {std::move(fd), bytes, physical, stamp};
}

MemoryFile adopt_memory_file(const char* kind, OwnedFd fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
  std::array<char, 256> name{};
  if (fd.get() < 0 || ::readlink(link.c_str(), name.data(), name.size() - 1) <= 0) return {};
  const std::string pattern = std::string("/memfd:standin-cuda-") + kind + "-%d-%" SCNx64;
  MemoryFile file;
  struct stat status{};
  if (std::sscanf(name.data(), pattern.c_str(), &file.physical, &file.stamp) != 2 ||
      ::fstat(fd.get(), &status) != 0)
    return {};
  file.bytes = static_cast<std::size_t>(status.st_size);
  file.fd = std::move(fd);
  return file;
}

Device ordinal_of(int physical) {
  const std::vector<int>& visible = settings().physical;
  for (std::size_t device = 0; device < visible.size(); ++device)
    if (visible[device] == physical) return static_cast<Device>(device);
  return -1;
}

bool take_room(Memory& memory, int physical, std::size_t bytes) {
  std::size_t& allocated = memory.allocated[physical];
  if (bytes > settings().memory_bytes - allocated) return false;
  allocated += bytes;
  return true;
}

void give_room(Memory& memory, int physical, std::size_t bytes) {
  memory.allocated[physical] -= bytes;
}

extern "C" STANDIN_EXPORT std::size_t standin_allocated_bytes(Device device) {
  if (!is_device(device)) fail_test("no such device");
  const std::lock_guard lock(world().mutex);
  return world().memory.allocated[settings().physical[static_cast<std::size_t>(device)]];
}

extern "C" STANDIN_EXPORT std::size_t standin_open_mappings() {
  const std::lock_guard lock(world().mutex);
  std::size_t count = 0;
  for (const auto& [base, range] : world().memory.ranges)
    if (range.kind != Range::Kind::kAllocation && range.kind != Range::Kind::kPooled) ++count;
  return count;
}

}  // namespace standin
