#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

std::vector<std::string> list_directory(int directory);
// Throws Error(kOutOfMemory) that names the limit, and then there is no file.
void create_file(int directory, const std::string& name, std::string_view content = {});
// Of a file that is there, at most so many bytes; empty if it is gone, or cannot be read.
std::string read_file(int directory, const std::string& name, std::size_t most) noexcept;
void remove_file(int directory, const std::string& name) noexcept;
// 0: there is no such file.
ino_t inode_of(int directory, const std::string& name) noexcept;

// Tells that entries of a directory came or went.
class DirectoryWatch {
 public:
  // `above`: directories that lie above it. That one of them is renamed is told, too.
  explicit DirectoryWatch(int directory, const std::vector<Fd>& above = {});

  struct Changes {
    bool some = false;
    bool place = false;             // the directory may not be where it was any more
    std::vector<std::string> gone;  // these names, or others have them now
  };
  // To be polled; -1 when the user is out of inotify instances and the caller has to list the
  // directory from time to time.
  int fd() const noexcept { return inotify_.get(); }
  // Takes what happened off the descriptor. An overflow counts as a change of everything, since the
  // answer to that is to look at everything.
  Changes take_changes() noexcept;
  bool drain_changes() noexcept;
  // Until something changes, a signal comes, or this long.
  void wait(std::chrono::nanoseconds timeout) noexcept;

 private:
  Fd inotify_;
};

}  // namespace tensorbus::platform
