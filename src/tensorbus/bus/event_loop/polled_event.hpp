#pragma once

#include "tensorbus/platform/waiting/notifier.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus::bus {

// The descriptor of a subscriber or a publisher for programs that poll. It combines one notifier
// for each link and an event of its own. Not thread-safe: guarded by the mutex of the Receiver or
// Sender.
class PolledEvent {
 public:
  // Signalled at the start: samples may wait already.
  PolledEvent();

  int fd() const noexcept { return poller_.fd(); }
  void listen_to(const platform::Fd& listener);
  // Called before the descriptor is closed: if a new forked child also has it, the kernel would go
  // on reporting it, under a number that is reused.
  void stop_listening_to(const platform::Fd& listener) noexcept { poller_.remove(listener.get()); }

  void signal() noexcept { platform::signal_event(own_.get()); }
  // Returns true if a polling program finds the descriptor readable. It stays readable until
  // clear().
  bool readable() const noexcept;
  // Makes the descriptor unreadable until the next notification or signal.
  void clear();

 private:
  platform::Poller poller_;
  platform::Fd own_;
};

}  // namespace tensorbus::bus
