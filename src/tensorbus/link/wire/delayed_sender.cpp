#include "tensorbus/link/wire/delayed_sender.hpp"

#include <new>
#include <utility>

namespace tensorbus::link {

void DelayedSender::send(const std::shared_ptr<Channel>& channel,
                         Channel::Prepared message) noexcept {
  if (!channel->delay(std::move(message))) return;
  const platform::MutexLock lock(mutex_);
  try {
    if (!arm_) return channel->send_delayed();
    channels_.push_back(channel);
    if (channels_.size() == 1) arm_();
  } catch (const std::bad_alloc&) {
    channel->send_delayed();
  }
}

void DelayedSender::flush() noexcept {
  std::vector<std::weak_ptr<Channel>> channels;
  {
    const platform::MutexLock lock(mutex_);
    channels.swap(channels_);
  }
  for (const auto& weak : channels)
    if (const auto channel = weak.lock()) channel->send_delayed();
}

void DelayedSender::stop() noexcept {
  {
    const platform::MutexLock lock(mutex_);
    arm_ = nullptr;
  }
  flush();
}

}  // namespace tensorbus::link
