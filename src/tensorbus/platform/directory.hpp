#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// A directory that is private to the user, made with its parents if need be (mode 0700).
// Throws Error(kPermission) if it belongs to somebody else or others may write to it.
Fd open_private_directory(const std::string& path);

std::vector<std::string> list_directory(int directory);
// Throws Error(kOutOfMemory) that names the limit, and then there is no file.
void create_file(int directory, const std::string& name, std::string_view content = {});
// Of a file that is there, at most so many bytes; empty if it is gone, or cannot be read.
std::string read_file(int directory, const std::string& name, std::size_t most) noexcept;
void remove_file(int directory, const std::string& name) noexcept;

// Tells that entries of a directory came or went.
class DirectoryWatch {
 public:
  explicit DirectoryWatch(const std::string& path);

  // To be polled; -1 when the user is out of inotify instances and the caller has to list the
  // directory from time to time.
  int fd() const noexcept { return inotify_.get(); }
  // Takes what happened off the descriptor. An overflow counts as a change like any other, since
  // the answer to every change is a rescan.
  bool drain_changes() noexcept;
  // Until something changes, a signal comes, or this long.
  void wait(std::chrono::nanoseconds timeout) noexcept;

 private:
  Fd inotify_;
};

}  // namespace tensorbus::platform
