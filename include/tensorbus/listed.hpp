#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/id.hpp>
#include <tensorbus/message_type.hpp>

namespace tensorbus::inline v0 {

// What a publisher says of itself in the domain's directory.
struct PublisherInfo {
  std::string topic;
  std::string node;  // empty: of none
  MessageType type;
  Id participant;
  std::uint32_t pid = 0;  // as its process sees it
};

// What a node says of itself there.
struct NodeInfo {
  std::string name;
  Id participant;
  std::uint32_t pid = 0;
};

}  // namespace tensorbus::inline v0
