#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/listed.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// Lists the publishers, nodes and queues of a domain from its directory, without a daemon.

// The description of a named queue.
struct QueueInfo {
  std::string name;
  std::string address;  // for Queue::open()
  Id participant;
  std::uint32_t pid = 0;     // in the pid namespace of its process
  std::uint32_t number = 0;  // its number in its participant
  std::string machine{};     // for a mirror: the machine of `origin`; empty: this machine
  std::string origin{};      // for a mirror: the queue that it represents; else empty
};

// These return the publishers, nodes and queues of living processes.
TENSORBUS_API std::vector<PublisherInfo> list_publishers(
    const ParticipantRef& participant = shared_participant());
TENSORBUS_API std::vector<NodeInfo> list_nodes(
    const ParticipantRef& participant = shared_participant());
TENSORBUS_API std::vector<QueueInfo> list_queues(
    const ParticipantRef& participant = shared_participant());

// These wait for a publisher or node of this name. They return kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome wait_for_topic(const std::string& topic, const platform::StopCondition& stop,
                                     const ParticipantRef& participant = shared_participant());
TENSORBUS_API Outcome wait_for_node(const std::string& name, const platform::StopCondition& stop,
                                    const ParticipantRef& participant = shared_participant());

// Announces a node's name in the domain while this object exists. Several nodes may have the same
// name.
class TENSORBUS_API NodeName {
 public:
  // Throws Error(kInvalidArgument) for an empty name or one of more than 2,048 bytes.
  explicit NodeName(const std::string& name,
                    const ParticipantRef& participant = shared_participant());
  NodeName(NodeName&&) noexcept;
  NodeName& operator=(NodeName&&) noexcept;
  ~NodeName();

 private:
  struct State;
  ForkSafe<State> state_;
};

}  // namespace tensorbus::bus
