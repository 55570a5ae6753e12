#pragma once

#include <memory>
#include <vector>

#include "tensorbus/bus/connection/inbound_connection.hpp"
#include "tensorbus/bus/domain/stale_files.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::bus {

// The connections that participants have opened to this one. Used only on the event loop.
class InboundConnections {
 public:
  InboundConnections(ParticipantContext& context, StaleFiles& stale_files,
                     InboundConnection::FindPublisher find_publisher);
  InboundConnections(const InboundConnections&) = delete;
  InboundConnections& operator=(const InboundConnections&) = delete;

  // Accepts all connections that wait at the listener. Refuses a peer, with the reason, if it would
  // take the last of a resource, or if there is no descriptor for it. Without memory for the
  // refusal, the peer waits in the backlog, or in newcomer_.
  void accept(const platform::Fd& listener);
  // Serves one connection. Returns its channel; null if the connection was refused.
  std::shared_ptr<link::Channel> adopt(platform::Fd socket);

  void notify_ended();
  void send_retired(memory::SegmentId segment);
  const std::vector<std::unique_ptr<InboundConnection>>& all() const noexcept {
    return connections_;
  }
  // Ends all connections, because this participant closes.
  void end();

 private:
  bool accept_next(const platform::Fd& listener);
  void turn_away(const platform::Fd& peer, const Error& shortage);
  void drop_ended();
  void drop_silent();

  ParticipantContext& context_;
  StaleFiles& stale_files_;
  const InboundConnection::FindPublisher find_publisher_;
  EventLoop::Task& dropping_ended_;
  EventLoop::Task& dropping_silent_;
  platform::Fd newcomer_;  // accepted, but there is no memory for its connection yet
  // A descriptor in reserve. It is closed to accept a connection that must be refused because no
  // other descriptor is free, and then reopened. Empty: it could not be reopened yet.
  platform::Fd reserve_ = platform::make_event();
  std::vector<std::unique_ptr<InboundConnection>> connections_;
};

}  // namespace tensorbus::bus
