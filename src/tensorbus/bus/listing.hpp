#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tensorbus/id.hpp>
#include <tensorbus/listed.hpp>
#include <tensorbus/message_type.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Who is in a domain, as its directory says. Asked of the living, without a daemon.

// Those of processes that live.
TENSORBUS_API std::vector<PublisherInfo> list_publishers(
    const Participant& participant = Participant::shared());
TENSORBUS_API std::vector<NodeInfo> list_nodes(
    const Participant& participant = Participant::shared());

// Until there is a publisher of the topic, or a node of the name. kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome wait_for_topic(const std::string& topic, std::chrono::nanoseconds timeout,
                                     const GiveUp& give_up = {},
                                     const Participant& participant = Participant::shared());
TENSORBUS_API Outcome wait_for_node(const std::string& name, std::chrono::nanoseconds timeout,
                                    const GiveUp& give_up = {},
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
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbus
