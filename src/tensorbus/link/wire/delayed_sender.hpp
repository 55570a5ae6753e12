#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::link {

// Sends messages that may be late, so that they do not wake the peer on their own: with the next
// message of their channel, or at flush(). Thread-safe.
class DelayedSender {
 public:
  // `arm` arranges a later call of flush(). It must not call this object.
  explicit DelayedSender(std::function<void()> arm) : arm_(std::move(arm)) {}

  void send(const std::shared_ptr<Channel>& channel, Channel::Prepared message) noexcept;
  void flush() noexcept;
  // Afterwards no message is delayed, because flush() is not called any more.
  void stop() noexcept;

 private:
  platform::Mutex mutex_;
  std::function<void()> arm_ TB_GUARDED_BY(mutex_);  // empty after stop()
  std::vector<std::weak_ptr<Channel>> channels_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::link
