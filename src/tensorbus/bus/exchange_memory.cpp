// What a peer says of the memory that it lends.
#include <utility>

#include "tensorbus/bus/exchange.hpp"
#include "tensorbus/link/peer.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {

bool Exchange::on_memory(link::Channel::Received& received) {
  switch (received.header.type) {
    case link::ControlType::kSegment: {
      const auto segment = received.as<link::SegmentMessage>();
      const memory::Grant grant = link::grant_of(segment.writable, "SEGMENT.writable");
      connected_->segments_for(grant).add(segment.segment, received.take_fd(), segment.bytes);
      platform::step("segment.received");
      return true;
    }
    case link::ControlType::kFile: {
      const auto file = received.as<link::FileMessage>();
      const memory::Grant grant = link::grant_of(file.writable, "FILE.writable");
      connected_->segments_for(grant).add_file(file.segment, received.take_fd(), file.bytes,
                                               {file.offset, link::as_text(file.path)});
      return true;
    }
    case link::ControlType::kCudaSegment: {
      const auto segment = received.as<link::CudaSegment>();
      const memory::Grant grant = link::grant_of(segment.writable, "CUDA_SEGMENT.writable");
      connected_->cuda.add(segment.segment, grant, received.take_fd(), segment.bytes,
                           platform::cu::Uuid{segment.device.bytes});
      platform::step("segment.received");
      return true;
    }
    case link::ControlType::kCudaExport:
      on_export(received);
      return true;
    case link::ControlType::kTimeline:
      connected_->cuda.set_timeline(received.take_fd(), connected_->pidfd);
      return true;
    case link::ControlType::kTimelineEvent: {
      const auto event = received.as<link::TimelineEvent>();
      connected_->cuda.add_event(
          {event.slot, platform::cu::Uuid{event.device.bytes}, {event.name}});
      return true;
    }
    case link::ControlType::kRetired: {
      const auto number = received.as<link::Retired>().number;
      connected_->cuda.retire(number);
      connected_->segments.retire(number);
      connected_->writable_segments.retire(number);
      return true;
    }
    default:
      return false;
  }
}

void Exchange::on_export(link::Channel::Received& received) {
  auto said = received.as<link::CudaExport>();
  memory::ExportPart part{.segment = said.segment,
                          .kind = said.kind,
                          .bytes = said.bytes,
                          .device = platform::cu::Uuid{said.device.bytes},
                          .handle = std::move(said.handle),
                          .chunk = said.chunk,
                          .chunks = said.chunks,
                          .chunk_bytes = said.chunk_bytes};
  if (!received.datagram.fds.empty()) part.fd = received.take_fd();
  const bool ours = link::is_this_process(connected_->channel->fd());
  connected_->cuda.add_export(source_ ? source_->participant : Id(), ours, std::move(part));
  platform::step("segment.received");
}

}  // namespace tensorbus::bus
