#pragma once

#include "tensorbus/platform/waiting/notifier.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus::bus {

// What a subscriber hands out to be polled: one descriptor for a notifier of each of its
// publishers, which none of them shares with another, and an event of its own. Not thread-safe:
// under the subscriber's mutex.
class PolledEvent {
 public:
  // Signalled: there may be something already.
  PolledEvent();

  int fd() const noexcept { return poller_.fd(); }
  void listen_to(const platform::Fd& listener);
  // Before the descriptor is closed: a child that was forked a moment ago may have it, too, and
  // then the kernel still tells of it, by a number that is another's.
  void stop_listening_to(const platform::Fd& listener) noexcept { poller_.remove(listener.get()); }

  void signal() noexcept { platform::signal_event(own_.get()); }
  // Will who looks at the descriptor find it readable? It stays so until it is cleared.
  bool readable() const noexcept;
  // Not readable until somebody notifies or signals anew.
  void clear();

 private:
  platform::Poller poller_;
  platform::Fd own_;
};

}  // namespace tensorbus::bus
