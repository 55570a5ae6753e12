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

// Who lends to this participant: the connections to them, and what is still mapped here of those
// that are gone. On the event loop.
class OutboundConnections {
 public:
  // A subscription of a publisher that goes on. Must not throw.
  using OnLost = std::function<void(const std::shared_ptr<SubscriberCore>&, const Id& owner,
                                    std::uint32_t publisher)>;
  // `look_again` is asked for when whoever wants a connection should try once more.
  OutboundConnections(ParticipantContext& context, const Domain& domain, StaleFiles& stale_files,
                      EventLoop::Task& look_again, OnLost on_lost);
  OutboundConnections(const OutboundConnections&) = delete;
  OutboundConnections& operator=(const OutboundConnections&) = delete;

  // The connection to a participant, made if need be. Null: it is dead, or there is none for now,
  // and `look_again` is asked for. Throws memory::PeerLimit.
  OutboundConnection* connection_to(const Id& owner) { return find_or_connect(owner).connection; }
  // Hands in the session with it, now or later, or null if it is dead.
  void reach(const Id& owner, const ParticipantContext::OnReached& on_reached);

  // What is mapped here of a participant that has ended. Its own word alone: what came over
  // connections that we opened to its socket, and not of whoever says in HELLO that it is the same.
  std::vector<std::shared_ptr<link::PeerMemory>> orphaned_memory_of(const Id& owner);
  // Is a subscriber of ours joined to this publisher, or has something of it?
  bool has_link(const std::shared_ptr<SubscriberCore>& subscriber, const Id& owner,
                std::uint32_t publisher) const;

  void drop_idle();
  void tell_retired(memory::SegmentId segment);
  // We are gone.
  void end();

 private:
  struct Found {
    OutboundConnection* connection = nullptr;
    bool dead = false;  // else, without a connection: to be tried again in a while
  };
  Found find_or_connect(const Id& owner);
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
  std::vector<std::shared_ptr<OutboundConnection>> departed_;  // that hung up
  std::multimap<Id, std::weak_ptr<link::PeerMemory>> orphans_;
};

}  // namespace tensorbus::bus
