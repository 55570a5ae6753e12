#include "tensorbus/bus/domain/domain.hpp"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <new>
#include <utility>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

// Sweeps of other participants make only some attempts fail. 1,000 attempts take 20 ms.
constexpr int kListenAttempts = 1000;

std::shared_ptr<const platform::Fd> opened(const std::string& path) {
  return std::make_shared<const platform::Fd>(platform::open_private_directory(path));
}

}  // namespace

Domain::Domain(const std::string& asked)
    : asked_(domain_asked_for(asked)), path_(domain_path(asked_)), directory_{opened(path_)} {
  (void)try_lock();
}

Domain::Directory Domain::directory() const {
  const platform::MutexLock lock(mutex_);
  return directory_;
}

std::string Domain::path() const {
  const platform::MutexLock lock(mutex_);
  return path_;
}

platform::DirectoryWatch Domain::watch_place() const {
  platform::PrivateDirectory way;
  try {
    way = platform::open_private(path(), platform::IfMissing::kLeave);
  } catch (const Error& error) {  // the directory is gone: follow() reports why
    if (error.code() == Code::kOutOfMemory) throw;
  }
  return platform::DirectoryWatch(*directory(), way.above);
}

platform::Fd Domain::listen(const Id& participant) const {
  const std::string temporary = temporary_socket_name(participant);
  for (int attempt = 1;; ++attempt) {
    try {
      return platform::listen_in(*directory(), temporary, socket_name(participant));
    } catch (const Error& error) {
      // A sweep may have removed the socket, because it did not listen yet: it is made again. Or
      // the last participant may have removed the directory.
      remove(temporary);
      if (attempt == kListenAttempts || error.code() != Code::kSystem) throw;
      (void)follow(participant);
    } catch (const std::bad_alloc&) {
      remove(temporary);
      throw;
    }
  }
}

platform::Connection Domain::connect(const Id& participant) const {
  return platform::connect_in(*directory(), socket_name(participant));
}

void Domain::add_marker(const std::string& name, std::string_view content) const {
  const platform::MutexLock lock(mutex_);
  const auto marker = markers_.emplace(name, content).first;
  try {
    platform::create_file(*directory_, name, content);
  } catch (...) {
    // The directory was just removed: the caller of follow() makes the marker in the new directory.
    if (platform::is_removed(*directory_)) return;
    markers_.erase(marker);
    throw;
  }
}

// Keeps the mutex, so that no other thread makes the file again in the meantime.
void Domain::remove_file(const std::string& name) const noexcept {
  const platform::MutexLock lock(mutex_);
  markers_.erase(name);
  platform::remove_file(*directory_, name);
}

Outcome Domain::wait(const platform::StopCondition& stop,
                     const std::function<bool()>& holds) const {
  platform::DirectoryWatch changes = watch();
  return stop.wait(holds, [&](std::chrono::nanoseconds most) {
    changes.wait(most);
    return platform::FutexWait::kWoken;
  });
}

void Domain::remove_files_of(const Id& participant) const {
  for (const std::string& name : list())
    if (owner_of_file(name) == participant) remove(name);
}

// Checks each participant right before the removal: a living participant that lost its socket makes
// another one.
std::set<Id> Domain::remove_files_of_dead(const std::set<Id>& participants) const {
  std::map<Id, std::vector<std::string>> files;
  for (const std::string& name : list())
    if (const auto owner = owner_of_file(name); owner && participants.contains(*owner))
      files[*owner].push_back(name);
  std::set<Id> dead;
  for (const Id& participant : participants) {
    if (!is_dead(participant)) continue;
    for (const std::string& name : files[participant]) remove(name);
    dead.insert(participant);
  }
  return dead;
}

void Domain::sweep(const Id& self) const {
  std::set<Id> owners;
  for (const std::string& name : list()) {
    const auto owner = owner_of_file(name);
    if (!owner || *owner == self) continue;
    if (name != temporary_socket_name(*owner))
      owners.insert(*owner);
    else if (is_dead(name))
      remove(name);  // only this name: a new participant may have renamed its socket just now
  }
  // These participants have listened before. So a participant whose socket refuses a connection is
  // dead.
  (void)remove_files_of_dead(owners);
}

bool Domain::is_dead(const Id& participant) const { return is_dead(socket_name(participant)); }

bool Domain::is_dead(const std::string& socket) const {
  try {
    return platform::connect_in(*directory(), socket).outcome == platform::Connect::kDead;
  } catch (const Error&) {
    // No descriptors, or another user's socket: other participants will check it.
    return false;
  }
}

bool Domain::follow(const Id& self) const {
  std::string path = this->path();
  const Directory before = directory();
  const auto there = platform::open_private(path, platform::IfMissing::kLeave);
  if (there.directory && platform::is_same_directory(there.directory.get(), *before)) return false;
  if (!is_domain_path(asked_)) path = domain_path(asked_);
  auto fd = opened(path);
  {
    const platform::MutexLock lock(mutex_);
    path_ = std::move(path);
    directory_.fd = std::move(fd);
    ++moves_;
  }
  (void)try_lock();
  try {
    for (const std::string& name : platform::list_directory(*before))
      if (owner_of_file(name) == self) platform::remove_file(*before, name);
  } catch (const std::exception&) {  // the directory no longer exists
  }
  return true;
}

std::uint64_t Domain::moves() const {
  const platform::MutexLock lock(mutex_);
  return moves_;
}

bool Domain::has_marked(const std::string& name) const {
  const platform::MutexLock lock(mutex_);
  return markers_.contains(name);
}

std::vector<std::pair<std::string, std::string>> Domain::marked(std::string_view beginning) const {
  std::vector<std::pair<std::string, std::string>> found;
  const platform::MutexLock lock(mutex_);
  for (const auto& marker : markers_)
    if (marker.first.starts_with(beginning)) found.emplace_back(marker);
  return found;
}

bool Domain::restore_markers() const {
  bool some = false;
  const platform::MutexLock lock(mutex_);
  for (const auto& [name, content] : markers_) {
    if (platform::inode_of(*directory_, name) != 0) continue;
    platform::create_file(*directory_, name, content);
    some = true;
  }
  return some;
}

bool Domain::try_lock() const noexcept {
  return ::flock(*directory(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

void Domain::remove_if_empty() const noexcept {
  try {
    if (!is_domain_path(asked_)) ::rmdir(path().c_str());
  } catch (const std::bad_alloc&) {  // the directory stays
  }
}

}  // namespace tensorbus::bus
