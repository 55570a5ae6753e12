// Handles a peer's messages about the memory that it lends.
#include <chrono>
#include <utility>

#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/wire/dispatch.hpp"
#include "tensorbus/link/wire/peer.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::chrono::milliseconds kCloseAgain{10};

// Notifies the owner of a segment, when destroyed, that the segment is closed here. Keeps the
// socket open: after the end of the connection, the closing of the socket notifies the owner.
struct ClosedNotice {
  std::shared_ptr<link::Channel> channel;
  link::Channel::Prepared message;

  ClosedNotice(std::shared_ptr<link::Channel> to, memory::SegmentId segment)
      : channel(std::move(to)), message(link::Channel::prepare(link::DeviceClosed{segment})) {}
  ClosedNotice(const ClosedNotice&) = delete;
  ClosedNotice& operator=(const ClosedNotice&) = delete;
  ~ClosedNotice() { channel->send(std::move(message)); }
};

}  // namespace

void PeerSession::send_closed() {
  peer_memory_->imported.on_closed([channel = peer_memory_->channel](memory::SegmentId segment) {
    return std::make_shared<const ClosedNotice>(channel, segment);
  });
}

bool PeerSession::on_memory(link::Channel::Received& received) {
  return link::dispatch<link::TakenBy::kMemory>(
      received, [this](auto&&... parts) { on(std::forward<decltype(parts)>(parts)...); });
}

void PeerSession::on(const link::SegmentMessage& segment, platform::Fd fd) {
  const memory::Grant grant = link::grant_of(segment.writable, "SEGMENT.writable");
  peer_memory_->segments_for(grant).add(segment.segment, std::move(fd), segment.bytes);
  platform::kill_point("segment.received");
}

void PeerSession::on(const link::FileMessage& file, platform::Fd fd) {
  const memory::Grant grant = link::grant_of(file.writable, "FILE.writable");
  peer_memory_->segments_for(grant).add_file(file.segment, std::move(fd), file.bytes,
                                             {file.offset, link::as_text(file.path)});
}

void PeerSession::on(const link::DeviceSegment& segment, platform::Fd fd) {
  const memory::Grant grant = link::grant_of(segment.writable, "DEVICE_SEGMENT.writable");
  peer_memory_->imported.add(segment.segment, grant, std::move(fd), segment.bytes,
                             device::GpuUuid{segment.device.bytes});
  platform::kill_point("segment.received");
}

void PeerSession::on(const link::TimelineMessage&, platform::Fd fd) {
  peer_memory_->imported.set_timeline(std::move(fd), peer_memory_->pidfd);
}

void PeerSession::on(const link::DeviceClosed& closed) { segments_->closed(closed.number); }

void PeerSession::on(const link::Retired& retired) {
  const memory::SegmentId segment = retired.number;
  peer_memory_->imported.retire(segment);
  peer_memory_->segments.retire(segment);
  peer_memory_->writable_segments.retire(segment);
  if (!closing_retired_) close_retired();
}

// Closes retired memory. Tries again if needed: a lease may be returned before it releases its
// memory.
void PeerSession::close_retired() {
  closing_retired_ = !peer_memory_->imported.let_go_of_retired();
  if (!closing_retired_ || ended_) return;
  context_.loop.post_later(kCloseAgain, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close_retired();
  });
}

void PeerSession::on(link::DeviceExport exported, platform::Fd fd) {
  device::ExportPart part{.segment = exported.segment,
                          .kind = exported.kind,
                          .bytes = exported.bytes,
                          .device = device::GpuUuid{exported.device.bytes},
                          .handle = std::move(exported.handle),
                          .chunk = exported.chunk,
                          .chunks = exported.chunks,
                          .chunk_bytes = exported.chunk_bytes};
  part.fd = std::move(fd);
  const bool ours = link::is_this_process(peer_memory_->channel->fd());
  peer_memory_->imported.add_export(source_ ? source_->participant : Id(), ours, std::move(part));
  platform::kill_point("segment.received");
}

}  // namespace tensorbus::bus
