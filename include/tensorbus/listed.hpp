#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/id.hpp>
#include <tensorbus/message_type.hpp>

namespace tensorbus::inline v0 {

// The description of a publisher in the domain's directory.
struct PublisherInfo {
  std::string topic;
  std::string node;  // empty: no node
  MessageType type;
  Id participant;
  std::uint32_t pid = 0;  // in the pid namespace of its process
};

// The description of a node there.
struct NodeInfo {
  std::string name;
  Id participant;
  std::uint32_t pid = 0;
};

}  // namespace tensorbus::inline v0
