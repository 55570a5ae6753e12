#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/message_type.hpp>

namespace tensorbus::inline v0 {

// The description of a publisher in the domain's directory.
struct PublisherInfo {
  std::string topic;
  std::string node;  // empty: no node
  MessageType type;
  Id participant;
  std::uint32_t pid = 0;     // in the pid namespace of its process
  std::uint32_t number = 0;  // unique in its participant
  std::uint32_t depth = 0;
  std::uint32_t history = 0;
  bool reliable = false;
  std::string machine{};  // for a mirror: the machine of `origin`; empty: this machine
  // For a mirror: the publisher that it represents, "<32 hex digits>.<number>"; else empty.
  std::string origin{};
};

// The description of a node in the domain's directory.
struct NodeInfo {
  std::string name;
  Id participant;
  std::uint32_t pid = 0;  // 0: on another machine
  std::string machine{};  // its machine, if it publishes here through a bridge; empty: this one
};

}  // namespace tensorbus::inline v0
