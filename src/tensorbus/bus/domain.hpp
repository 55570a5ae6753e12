#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/bus/options.hpp"
#include "tensorbus/platform/directory.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/id.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::bus {

// The path of a domain: what was asked for (a path if it has a slash, else a name), else
// TENSORBUS_DOMAIN, else "default".
std::string domain_path(const std::string& asked);

// The directory that names one bus. Thread-safe: every call is one system call or a few.
class Domain {
 public:
  // Makes the directory if need be. Throws Error(kPermission) if others own it or may write to it.
  explicit Domain(const std::string& asked);

  const std::string& path() const noexcept { return path_; }
  std::vector<std::string> list() const { return platform::list_directory(directory_.get()); }
  platform::DirectoryWatch watch() const { return platform::DirectoryWatch(path_); }

  platform::Fd listen(const Id& participant) const;
  platform::Connection connect(const Id& participant) const;

  // `content` tells about what is marked.
  void add_marker(const std::string& name, std::string_view content = {}) const {
    platform::create_file(directory_.get(), name, content);
  }
  std::string read_marker(const std::string& name, std::size_t most_bytes) const noexcept {
    return platform::read_file(directory_.get(), name, most_bytes);
  }
  void remove_file(const std::string& name) const noexcept {
    platform::remove_file(directory_.get(), name);
  }
  // Does nobody listen at the socket of this participant?
  bool is_dead(const Id& participant) const;
  // Until `holds`, which is asked again when the directory changes. kDone, kTimedOut, kInterrupted.
  Outcome wait(std::chrono::nanoseconds timeout, const GiveUp& give_up,
               const std::function<bool()>& holds) const;

  // Removes socket and markers of a participant that is gone.
  void remove_files_of(const Id& participant) const;
  // Removes what dead participants left behind. `self` is spared.
  void sweep(const Id& self) const;

 private:
  bool is_dead(const std::string& socket) const;

  std::string path_;
  platform::Fd directory_;
};

}  // namespace tensorbus::bus
