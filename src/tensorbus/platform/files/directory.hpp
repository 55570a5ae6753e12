#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

std::vector<std::string> list_directory(int directory);
// Throws Error(kOutOfMemory) that names the limit. After a failure there is no file.
void create_file(int directory, const std::string& name, std::string_view content = {});
// Returns at most `most` bytes of a file; empty if it does not exist or cannot be read. Throws
// Error(kOutOfMemory) if there is no descriptor or memory to read it.
std::string read_file(int directory, const std::string& name, std::size_t most);
void remove_file(int directory, const std::string& name) noexcept;
// Returns 0 if the file does not exist.
ino_t inode_of(int directory, const std::string& name) noexcept;

// Reports entries of a directory that were created, removed or renamed.
class DirectoryWatch {
 public:
  // `above`: the directories on the path to `directory`. Renaming one of them is reported too.
  explicit DirectoryWatch(int directory, const std::vector<Fd>& above = {});

  struct Changes {
    bool some = false;
    bool place = false;             // the directory may have been moved or removed
    std::vector<std::string> gone;  // these names were removed, or replaced by other files
  };
  // Returns the descriptor to poll; -1 if the user has no inotify instances left. The caller then
  // lists the directory from time to time.
  int fd() const noexcept { return inotify_.get(); }
  // Takes the pending events. If events were lost, `place` is set.
  Changes take_changes() noexcept;
  bool drain_changes() noexcept;
  // Waits for a change, a signal or the timeout.
  void wait(std::chrono::nanoseconds timeout) noexcept;

 private:
  Fd inotify_;
};

}  // namespace tensorbus::platform
