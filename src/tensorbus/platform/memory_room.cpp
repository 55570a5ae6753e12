#include "tensorbus/platform/memory_room.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace tensorbus::platform {
namespace {

std::optional<std::size_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

std::size_t available_bytes(const std::string& proc) {
  std::ifstream file(proc + "/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::size_t kibibytes = 0;
    if (words >> key >> kibibytes && key == "MemAvailable:") return kibibytes * 1024;
  }
  return std::numeric_limits<std::size_t>::max();
}

// The names of the files of a cgroup hierarchy, and its mount point.
struct Hierarchy {
  std::string mount;
  std::string limit;
  std::string usage;
  std::string cache_prefix;  // of the lines of memory.stat that include the child cgroups
};

// Returns the bytes of cached file pages. A cgroup counts them as used, although the kernel drops
// them when memory is needed.
std::size_t cached_bytes(const std::string& directory, const std::string& prefix) {
  std::ifstream file(directory + "/memory.stat");
  std::string key;
  std::size_t bytes = 0;
  std::size_t cached = 0;
  while (file >> key >> bytes)
    if (key == prefix + "inactive_file" || key == prefix + "active_file") cached += bytes;
  return cached;
}

void narrow_by_cgroup(const Hierarchy& hierarchy, std::string path, MemoryRoom& room) {
  while (true) {
    const std::string directory = hierarchy.mount + path;
    const auto limit = read_number(directory + "/" + hierarchy.limit);
    auto usage = read_number(directory + "/" + hierarchy.usage);
    if (limit && usage) {
      *usage -= std::min(*usage, cached_bytes(directory, hierarchy.cache_prefix));
      const std::size_t left = *limit > *usage ? *limit - *usage : 0;
      if (left < room.bytes)
        room = {left, hierarchy.limit + " of cgroup " + (path.empty() ? "/" : path)};
    }
    const auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

MemoryRoom memory_room(const std::string& proc, const std::string& cgroup) {
  MemoryRoom room{available_bytes(proc), "MemAvailable of this machine"};
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "<id>:<controllers>:<path>"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      narrow_by_cgroup({cgroup, "memory.max", "memory.current", ""}, path, room);
    } else if (controllers.find("memory") != std::string::npos) {
      narrow_by_cgroup(
          {cgroup + "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}, path,
          room);
    }
  }
  return room;
}

std::size_t max_file_bytes() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::size_t>::max();
  return limit.rlim_cur;
}

}  // namespace tensorbus::platform
