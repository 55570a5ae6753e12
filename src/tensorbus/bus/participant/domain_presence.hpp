#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tensorbus/values/id.hpp>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/directory.hpp"

namespace tensorbus::bus {

// A participant's files in the domain directory, among them the socket at which other participants
// reach it, and the watch of the directory. If files or the directory are removed, they are made
// again where the path then leads. Owned by Participant. Made before the event loop starts,
// then used on the event loop only.
class DomainPresence {
 public:
  using OnConnection = std::function<void(const platform::Fd& listener)>;
  // `scanning` is scheduled when the directory has changed.
  DomainPresence(EventLoop& loop, const Domain& domain, const Id& self, EventLoop::Task& scanning,
                 OnConnection on_connection);
  DomainPresence(const DomainPresence&) = delete;
  DomainPresence& operator=(const DomainPresence&) = delete;

  // Schedules the next poll if there is no inotify instance.
  void poll_unless_watched() {
    if (watch_.fd() < 0) watch();
  }
  // Removes the socket file. Called after the event loop has stopped.
  void remove_socket() noexcept { domain_.remove_file(socket_.name); }

 private:
  // Removes the file when it is destroyed, even if the constructor of DomainPresence fails.
  struct SocketFile {
    SocketFile(const Domain& in, const Id& self);
    ~SocketFile() {
      domain.remove_file(name);
      domain.remove_if_empty();
    }
    SocketFile(const SocketFile&) = delete;
    SocketFile& operator=(const SocketFile&) = delete;
    const Domain& domain;
    const std::string name;
  };

  void watch();
  void on_change();
  void keep();
  void listen();

  EventLoop& loop_;
  const Domain& domain_;
  const Id self_;
  EventLoop::Task& scanning_;
  EventLoop::Task& keeping_;
  const OnConnection on_connection_;
  const SocketFile socket_;
  platform::Fd listener_;
  ino_t socket_inode_ = 0;
  EventLoop::Tag listener_tag_ = 0;
  std::uint64_t watched_place_;  // Domain::moves() when the watch began
  platform::DirectoryWatch watch_;
  EventLoop::Tag watch_tag_ = 0;
  int failures_ = 0;  // of keep(), consecutive
};

}  // namespace tensorbus::bus
