#pragma once

#include <cstddef>
#include <string>

namespace tensorbus::platform {

// The tightest of the limits that a process meets when it takes more memory.
struct MemoryRoom {
  std::size_t bytes = 0;
  std::string limit;  // what to tell the user, e.g. "memory.max of cgroup /user.slice"
};

// Reads MemAvailable and the room in every cgroup (v1 and v2) above the process.
// `proc` and `cgroup` are the mount points; tests pass directories of their own.
MemoryRoom memory_room(const std::string& proc = "/proc",
                       const std::string& cgroup = "/sys/fs/cgroup");

// RLIMIT_FSIZE, which also bounds a memfd.
std::size_t max_file_bytes() noexcept;

}  // namespace tensorbus::platform
