#pragma once

#include <chrono>
#include <vector>

#include "tensorbus/bus/connection/inbound_connections.hpp"
#include "tensorbus/bus/connection/outbound_connections.hpp"
#include "tensorbus/bus/participant/publishers.hpp"
#include "tensorbus/bus/session/participant_context.hpp"

namespace tensorbus::bus {

// Frees memory of a participant that is no longer used: idle GPU memory, and exported GPU memory of
// other allocators. Notifies peers of retired segments. On the event loop only.
class MemoryUpkeep {
 public:
  MemoryUpkeep(ParticipantContext& context, const Publishers& publishers,
               InboundConnections& inbound, OutboundConnections& outbound);
  MemoryUpkeep(const MemoryUpkeep&) = delete;
  MemoryUpkeep& operator=(const MemoryUpkeep&) = delete;

 private:
  void look_after_exports();
  void retire_idle();
  void notify_of_retired();

  ParticipantContext& context_;
  const Publishers& publishers_;
  InboundConnections& inbound_;
  OutboundConnections& outbound_;
  std::vector<memory::SegmentId> retired_;  // segments of which peers must be notified
  device::DeviceExports::Stats exports_seen_;
  std::chrono::milliseconds exports_look_{1};  // until the next check
  EventLoop::Task& looking_after_exports_;
  EventLoop::Task& retiring_idle_;
  EventLoop::Task& notifying_of_retired_;
};

}  // namespace tensorbus::bus
