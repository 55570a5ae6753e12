#include "ledger.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tensorbus::kills {
namespace {

constexpr const char* kSegment = "/memfd:tensorbus-segment";

// By its number, as text. All here goes by names: the descriptors are others', who close them.
bool is_writable(const std::string& fd) {
  std::ifstream info("/proc/self/fdinfo/" + fd);
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("flags:"))
      return (std::stoi(line.substr(6), nullptr, 8) & O_ACCMODE) == O_RDWR;
  return false;
}

void count_descriptors(Ledger& ledger) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::string what = std::filesystem::read_symlink(entry.path(), ignored);
    if (what.starts_with(kSegment)) {
      struct stat status{};
      if (::stat(entry.path().c_str(), &status) < 0) continue;
      ledger.segments_seen.insert(status.st_ino);
      if (is_writable(entry.path().filename())) ledger.segments_owned.insert(status.st_ino);
    } else if (!what.starts_with("/proc/")) {  // the one that lists them
      if (const auto colon = what.find(":["); colon != std::string::npos) what.resize(colon);
      ++ledger.counts["descriptors: " + what];
    }
  }
}

void count_mappings(Ledger& ledger) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:tensorbus") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, access, offset, device, name;
    std::uint64_t inode = 0;
    words >> range >> access >> offset >> device >> inode >> name;
    if (name != kSegment)
      ++ledger.counts["mappings: " + name];
    else if (access.ends_with('p'))
      ++ledger.counts["mappings of private samples"];
    else
      ledger.segments_seen.insert(inode);
  }
}

}  // namespace

Ledger Ledger::now() {
  Ledger ledger;
  count_descriptors(ledger);
  count_mappings(ledger);
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++ledger.counts["threads"];
  return ledger;
}

Resident Resident::of_this_process() {
  Resident resident;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    words >> name >> kibibytes;
    if (name == "VmRSS:") resident.bytes = kibibytes << 10;
    if (name == "RssAnon:") resident.anonymous_bytes = kibibytes << 10;
  }
  return resident;
}

}  // namespace tensorbus::kills
