#pragma once

#include <cstddef>
#include <string>

namespace tensorbus::platform {

// The tightest limit for a process that allocates more memory.
struct MemoryRoom {
  std::size_t bytes = 0;
  std::string limit;  // text for the user, e.g. "memory.max of cgroup /user.slice"
};

// Reads MemAvailable and the free memory of every cgroup (v1 and v2) above the process. `proc` and
// `cgroup` are the mount points; tests pass directories of their own.
MemoryRoom memory_room(const std::string& proc = "/proc",
                       const std::string& cgroup = "/sys/fs/cgroup");

// Returns RLIMIT_FSIZE, which also limits a memfd.
std::size_t max_file_bytes() noexcept;

}  // namespace tensorbus::platform
