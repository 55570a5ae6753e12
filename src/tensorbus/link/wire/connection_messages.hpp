#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/id.hpp>

#include "tensorbus/link/wire/control.hpp"

// The handshake, and what a link between a publisher and a subscriber begins and ends with.
namespace tensorbus::link {

inline constexpr std::size_t kMostDefinition = 1800;  // bytes, beside the longest topic

struct Hello {
  static constexpr ControlType kType = ControlType::kHello;
  Id id;
  std::uint32_t pid = 0;
  std::uint32_t wake_slots = 0;
  std::uint32_t has_pidfd = 0;
  std::uint32_t layout = kLayoutVersion;
  void visit(auto& archive) { archive(id, pid, wake_slots, has_pidfd, layout); }
};

struct Subscribe {
  static constexpr ControlType kType = ControlType::kSubscribe;
  std::uint32_t link = 0;
  std::uint32_t publisher = 0;
  std::uint32_t depth = 0;  // 0: as the publisher prefers
  std::uint32_t max_held = 0;
  std::uint32_t wake_slot = 0;
  std::uint32_t writable = 0;     // 1: the memory of samples is to be written, too
  std::uint64_t fingerprint = 0;  // of the type; 0: any message
  std::string topic;
  std::string type{};  // its definition, or its name if that is longer than kMostDefinition
  void visit(auto& archive) {
    archive(link, publisher, depth, max_held, wake_slot, writable, fingerprint, topic, type);
  }
};

struct Accepted {
  static constexpr ControlType kType = ControlType::kAccepted;
  std::uint32_t link = 0;
  std::uint32_t slots = 0;
  std::uint32_t returns = 0;
  std::uint32_t max_held = 0;
  std::uint32_t wake_slot = 0;
  std::uint32_t reliable = 0;
  std::uint64_t next_sequence = 0;  // of the first sample this link is to get
  void visit(auto& archive) {
    archive(link, slots, returns, max_held, wake_slot, reliable, next_sequence);
  }
};

struct Refused {
  static constexpr ControlType kType = ControlType::kRefused;
  std::uint32_t link = 0;
  std::uint32_t code = 0;  // a tensorbus::Code
  std::string text;
  void visit(auto& archive) { archive(link, code, text); }
};

using Ended = Notice<ControlType::kEnded>;
using Unsubscribe = Notice<ControlType::kUnsubscribe>;
using Done = Notice<ControlType::kDone>;
using Event = Notice<ControlType::kEvent>;

}  // namespace tensorbus::link
