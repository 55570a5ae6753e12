#pragma once

#include <utility>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// Notifies a polling program of changes. Does nothing until the program requests the descriptor.
// Thread-safe.
class ChangeEvent {
 public:
  // Returns a descriptor that is readable from a signal() to the next clear(), and at the start.
  int descriptor() {
    const platform::MutexLock lock(mutex_);
    if (!event_) {
      event_ = platform::make_event();
      signal_once();
    }
    return event_.get();
  }
  void signal() noexcept {
    const platform::MutexLock lock(mutex_);
    if (event_) signal_once();
  }
  // Called before the changes are read: a change that comes later signals again.
  void clear() noexcept {
    const platform::MutexLock lock(mutex_);
    if (std::exchange(signalled_, false)) platform::clear_event(event_.get());
  }

 private:
  void signal_once() noexcept TB_REQUIRES(mutex_) {
    if (!std::exchange(signalled_, true)) platform::signal_event(event_.get());
  }

  platform::Mutex mutex_;
  platform::Fd event_ TB_GUARDED_BY(mutex_);
  bool signalled_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::bus
