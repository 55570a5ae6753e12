#include "tensorbus/link/segment_sender.hpp"

#include "tensorbus/platform/step.hpp"

namespace tensorbus::link {

SegmentSender::SegmentSender(std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena)
    : channel_(std::move(channel)), arena_(std::move(arena)) {}

void SegmentSender::ensure_sent(std::uint32_t segment) {
  const std::lock_guard lock(mutex_);
  if (sent_.contains(segment)) return;
  memory::Arena::SharedSegment shared = arena_->share_segment(segment);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(shared.fd));
  channel_->send(SegmentMessage{segment, shared.bytes}, std::move(fds));
  sent_.insert(segment);
  platform::step("publish.segment_sent");
}

void SegmentSender::retire(std::uint32_t segment) {
  const std::lock_guard lock(mutex_);
  if (sent_.erase(segment) != 0) channel_->send(Retired{segment});
}

}  // namespace tensorbus::link
