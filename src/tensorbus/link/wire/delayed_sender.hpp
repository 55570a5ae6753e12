#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::link {

// Sends messages that may come a little later, so that they cost the peer no wake of their own:
// with the next message of their channel, or when flush() is called. Thread-safe.
class DelayedSender {
 public:
  // `arm` has flush() called some time later. It must not call this object.
  explicit DelayedSender(std::function<void()> arm) : arm_(std::move(arm)) {}

  void send(const std::shared_ptr<Channel>& channel, Channel::Prepared message) noexcept;
  void flush() noexcept;
  // Nothing is delayed from now on: nobody calls flush() any more.
  void stop() noexcept;

 private:
  platform::Mutex mutex_;
  std::function<void()> arm_ TB_GUARDED_BY(mutex_);  // empty after stop()
  std::vector<std::weak_ptr<Channel>> channels_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::link
