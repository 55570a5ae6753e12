#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tensorbus/id.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/bus/domain/domain_path.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/directory.hpp"
#include "tensorbus/platform/files/private_directory.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::bus {

// The directory that names one bus. While it is open it has a shared lock (flock), which cleaners
// of /tmp honour. Thread-safe: every call is one system call or a few.
class Domain {
 public:
  // Makes the directory if need be. Throws Error(kPermission) if others own it, may write to it, or
  // could lead us elsewhere.
  explicit Domain(const std::string& asked);

  std::string path() const;
  std::vector<std::string> list() const { return platform::list_directory(*directory()); }
  platform::DirectoryWatch watch() const { return platform::DirectoryWatch(*directory()); }
  // The same, which is also told when it, or one above it, is renamed.
  platform::DirectoryWatch watch_place() const;

  platform::Fd listen(const Id& participant) const;
  platform::Connection connect(const Id& participant) const;

  // `content` tells about what is marked. It stays until remove_file(): see restore_markers().
  void add_marker(const std::string& name, std::string_view content = {}) const;
  std::string read_marker(const std::string& name, std::size_t most_bytes) const noexcept {
    return platform::read_file(*directory(), name, most_bytes);
  }
  void remove_file(const std::string& name) const noexcept;
  // Does nobody listen at the socket of this participant?
  bool is_dead(const Id& participant) const;
  // Until `holds`, which is asked again when the directory changes. kDone, kTimedOut, kInterrupted.
  Outcome wait(std::chrono::nanoseconds timeout, const GiveUp& give_up,
               const std::function<bool()>& holds) const;

  // Removes socket and markers of a participant that is gone.
  void remove_files_of(const Id& participant) const;
  // The same of those among them that are dead, which it returns. One listing for all.
  std::set<Id> remove_files_of_dead(const std::set<Id>& participants) const;
  // Removes what dead participants left behind. `self` is spared.
  void sweep(const Id& self) const;

  // For whoever has files here and finds that they, or the directory, are gone.
  //
  // Is it no longer where its path leads? Then the one that is there now is taken, made
  // if need be; what `self` had in the old one is removed. The markers, the watch and the socket
  // are the caller's to make anew.
  bool follow(const Id& self) const;
  // How often one was followed, by listen() too: whoever watches has to watch the next one then.
  std::uint64_t moves() const;
  bool has_marked(const std::string& name) const;
  // Makes those of our markers again that somebody has removed. True: there were some.
  bool restore_markers() const;
  // Of the file, to know it again; 0 if there is none.
  ino_t inode_of(const std::string& name) const noexcept {
    return platform::inode_of(*directory(), name);
  }
  // Takes the lock if it is not ours yet. False: somebody is cleaning up there right now.
  bool try_lock() const noexcept;
  // Nobody is here any more: a directory that was made for a name goes, one that was given stays.
  void remove_if_empty() const noexcept;

 private:
  // Keeps the descriptor for as long as it is used: another thread may follow() meanwhile.
  struct Directory {
    std::shared_ptr<const platform::Fd> fd;
    int operator*() const noexcept { return fd->get(); }
  };
  Directory directory() const;
  bool is_dead(const std::string& socket) const;
  void remove(const std::string& name) const noexcept { platform::remove_file(*directory(), name); }

  const std::string asked_;
  mutable platform::Mutex mutex_;
  mutable std::string path_ TB_GUARDED_BY(mutex_);
  mutable Directory directory_ TB_GUARDED_BY(mutex_);
  mutable std::uint64_t moves_ TB_GUARDED_BY(mutex_) = 0;
  // Ours, with what is in them.
  mutable std::map<std::string, std::string> markers_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
