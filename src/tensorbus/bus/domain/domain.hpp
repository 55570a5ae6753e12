#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tensorbus/values/id.hpp>
#include <vector>

#include "tensorbus/bus/domain/domain_path.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/directory.hpp"
#include "tensorbus/platform/files/private_directory.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/unix_socket.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// The directory that identifies one bus. While it is open, it has a shared lock (flock). Programs
// that clean /tmp respect this lock. Thread-safe: each call makes one or a few system calls.
class Domain {
 public:
  // Makes the directory if it is missing. Throws Error(kPermission) if another user owns it, may
  // write to it, or could redirect its path.
  explicit Domain(const std::string& asked);

  std::string path() const;
  std::vector<std::string> list() const { return platform::list_directory(*directory()); }
  platform::DirectoryWatch watch() const { return platform::DirectoryWatch(*directory()); }
  // As watch(), but also reports when the directory, or one above it, is renamed.
  platform::DirectoryWatch watch_place() const;

  platform::Fd listen(const Id& participant) const;
  platform::Connection connect(const Id& participant) const;

  // `content` describes the marked object. The marker stays until remove_file(): see
  // restore_markers().
  void add_marker(const std::string& name, std::string_view content = {}) const;
  // See platform::read_file().
  std::string read_marker(const std::string& name, std::size_t max_bytes) const {
    return platform::read_file(*directory(), name, max_bytes);
  }
  void remove_file(const std::string& name) const noexcept;
  // Returns true if no process listens at the socket of this participant.
  bool is_dead(const Id& participant) const;
  // Waits until `holds` returns true; calls it again when the directory changes. Returns kDone,
  // kTimedOut or kInterrupted.
  Outcome wait(const platform::StopCondition& stop, const std::function<bool()>& holds) const;

  // Removes the socket and the markers of a participant that is gone.
  void remove_files_of(const Id& participant) const;
  // Removes the files of those of `participants` that are dead, and returns them. Lists the
  // directory once.
  std::set<Id> remove_files_of_dead(const std::set<Id>& participants) const;
  // Removes the files of all dead participants, but no file of `self`.
  void sweep(const Id& self) const;

  // The following functions are for a participant whose files, or whose directory, are gone.
  //
  // If the directory is no longer at its path, opens the directory that is there now, or makes it,
  // removes the files of `self` from the old one, and returns true. The caller must then renew the
  // markers, the watch and the socket.
  bool follow(const Id& self) const;
  // Returns how often the directory was replaced by another one, by follow() or listen(). A watch
  // must be renewed after that.
  std::uint64_t moves() const;
  bool has_marked(const std::string& name) const;
  // Returns the names and contents of this participant's markers whose names have this prefix.
  std::vector<std::pair<std::string, std::string>> marked(std::string_view beginning) const;
  // Makes the removed markers of this participant again. Returns true if some were removed.
  bool restore_markers() const;
  // Returns the inode of a file, to recognise the file later; 0 if there is none.
  ino_t inode_of(const std::string& name) const noexcept {
    return platform::inode_of(*directory(), name);
  }
  // Takes the lock if this process does not have it yet. Returns false if a cleaning program has
  // the lock.
  bool try_lock() const noexcept;
  // Removes the directory if it is empty and was made for a name. A directory that was given by its
  // path stays.
  void remove_if_empty() const noexcept;

 private:
  // Keeps the descriptor open while it is used: another thread may call follow() in the meantime.
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
  // This participant's markers and their contents.
  mutable std::map<std::string, std::string> markers_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
