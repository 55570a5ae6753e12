#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorbus/bus/connection/outbound_connection.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/stale_files.hpp"
#include "tensorbus/bus/session/participant_context.hpp"

namespace tensorbus::bus {

// The connections of this participant to owners, and the memory of ended owners that is still
// mapped here. Used only on the event loop.
class OutboundConnections {
 public:
  // Called for a lost subscription whose publisher goes on. Must not throw.
  using OnLost = std::function<void(const std::shared_ptr<Receiver>&, const Id& owner,
                                    std::uint32_t publisher)>;
  // `look_again` is scheduled when a failed connection should be tried again.
  OutboundConnections(ParticipantContext& context, const Domain& domain, StaleFiles& stale_files,
                      EventLoop::Task& look_again, OnLost on_lost);
  OutboundConnections(const OutboundConnections&) = delete;
  OutboundConnections& operator=(const OutboundConnections&) = delete;

  // Returns the connection to a participant; opens it if there is none. Null if the participant is
  // dead, or if a connection is not possible now; then `look_again` is scheduled. Throws
  // memory::PeerLimit.
  OutboundConnection* connection_to(const Id& owner) { return find_or_connect(owner).connection; }
  // Calls `on_reached` with the session, now or later; with null if the participant is dead.
  void reach(const Id& owner, const ParticipantContext::OnReached& on_reached);

  // Returns the memory of an ended participant that is mapped here. Includes only memory that came
  // over connections to the socket of `owner`, because any peer could send this id in HELLO.
  std::vector<std::shared_ptr<link::PeerMemory>> orphaned_memory_of(const Id& owner);
  // Returns true if the subscriber has a link to this publisher, or a lease on its samples.
  bool has_link(const std::shared_ptr<Receiver>& subscriber, const Id& owner,
                std::uint32_t publisher) const;

  void drop_idle();
  void send_retired(memory::SegmentId segment);
  // Returns the sessions of all connections, including ended ones with memory still lent.
  std::vector<std::shared_ptr<PeerSession>> sessions() const;
  // Returns all memory of participants, including ended ones, that came over these connections.
  std::vector<std::pair<Id, std::shared_ptr<link::PeerMemory>>> memory() const;
  // Ends all connections, because this participant closes.
  void end();

 private:
  struct Found {
    OutboundConnection* connection = nullptr;
    bool dead = false;  // if false, and there is no connection: try again later
  };
  Found find_or_connect(const Id& owner);
  void require_descriptors() const;
  // Connects this participant with itself. Null if there is no room for the connection.
  OutboundConnection* connect_to_self();
  OutboundConnection* adopt(const Id& owner, platform::Fd socket);
  void forget(OutboundConnection& connection, const std::string& why);
  void inherit(const Id& owner, const std::shared_ptr<link::PeerMemory>& left);
  void drop_departed();

  ParticipantContext& context_;
  const Domain& domain_;
  StaleFiles& stale_files_;
  EventLoop::Task& look_again_;
  EventLoop::Task& dropping_departed_;
  const OnLost on_lost_;
  std::map<Id, std::shared_ptr<OutboundConnection>> outbound_;
  std::vector<std::shared_ptr<OutboundConnection>> departed_;  // kept after their end
  std::multimap<Id, std::weak_ptr<link::PeerMemory>> orphans_;
};

}  // namespace tensorbus::bus
