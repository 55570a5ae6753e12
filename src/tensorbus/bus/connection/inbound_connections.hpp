#pragma once

#include <memory>
#include <vector>

#include "tensorbus/bus/connection/inbound_connection.hpp"
#include "tensorbus/bus/domain/stale_files.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::bus {

// The connections that other participants opened to this one. On the event loop.
class InboundConnections {
 public:
  InboundConnections(ParticipantContext& context, StaleFiles& stale_files,
                     InboundConnection::FindPublisher find_publisher);
  InboundConnections(const InboundConnections&) = delete;
  InboundConnections& operator=(const InboundConnections&) = delete;

  // Accepts every connection that waits at the listener. A connection for which memory or
  // descriptors are short now waits in the backlog, or here. A peer that would take the last of a
  // resource is turned away, and told why.
  void accept(const platform::Fd& listener);
  // Serves one connection. Returns its channel; null if the connection was refused.
  std::shared_ptr<link::Channel> adopt(platform::Fd socket);

  void tell_ended();
  void tell_retired(memory::SegmentId segment);
  const std::vector<std::unique_ptr<InboundConnection>>& all() const noexcept {
    return connections_;
  }
  // This participant is gone.
  void end();

 private:
  void drop_ended();
  void drop_silent();

  ParticipantContext& context_;
  StaleFiles& stale_files_;
  const InboundConnection::FindPublisher find_publisher_;
  EventLoop::Task& dropping_ended_;
  EventLoop::Task& dropping_silent_;
  platform::Fd newcomer_;  // accepted; there was no room for its connection yet
  std::vector<std::unique_ptr<InboundConnection>> connections_;
};

}  // namespace tensorbus::bus
