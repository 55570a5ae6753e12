#pragma once

#include <string>
#include <tensorbus/listed.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

// Who is in a domain, as its directory says. Asked of the living, without a daemon.

// Those of processes that live.
TENSORBUS_API std::vector<PublisherInfo> list_publishers(
    const Participant& participant = Participant::shared());
TENSORBUS_API std::vector<NodeInfo> list_nodes(
    const Participant& participant = Participant::shared());

// Until there is a publisher of the topic, or a node of the name. kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome wait_for_topic(const std::string& topic, const platform::StopCondition& stop,
                                     const Participant& participant = Participant::shared());
TENSORBUS_API Outcome wait_for_node(const std::string& name, const platform::StopCondition& stop,
                                    const Participant& participant = Participant::shared());

// A node's name in the domain, for as long as it lives. Several may have the same.
class TENSORBUS_API NodeName {
 public:
  // Throws Error(kInvalidArgument) for an empty name or one of more than 2,048 bytes.
  explicit NodeName(const std::string& name,
                    const Participant& participant = Participant::shared());
  NodeName(NodeName&&) noexcept;
  NodeName& operator=(NodeName&&) noexcept;
  ~NodeName();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
