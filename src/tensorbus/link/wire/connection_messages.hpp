#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/values/id.hpp>
#include <vector>

#include "tensorbus/link/trace/trace_record.hpp"
#include "tensorbus/link/wire/control.hpp"

// The messages of the handshake, and those that begin and end a link.
namespace tensorbus::link {

inline constexpr std::size_t kMaxDefinition = 1800;  // bytes; leaves room for the longest topic
inline constexpr std::size_t kMaxNode = 160;         // bytes of a node's name in SUBSCRIBE
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

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
  std::uint32_t depth = 0;  // 0: the publisher's own depth
  std::uint32_t max_held = 0;
  std::uint32_t wake_slot = 0;
  std::uint32_t writable = 0;     // 1: the subscriber also writes the memory of samples
  std::uint32_t best_effort = 0;  // 1: a reliable publisher does not wait for the subscriber
  std::uint64_t fingerprint = 0;  // of the message type; 0: any type
  // After a cut-off: the first sample that the subscriber did not get.
  std::uint64_t resume_at = kNoSequence;
  std::string topic;
  std::string type{};  // the definition, or the name if the definition exceeds kMaxDefinition
  std::string node{};  // name for inspections, at most kMaxNode bytes
  void visit(auto& archive) {
    archive(link, publisher, depth, max_held, wake_slot, writable, best_effort, fingerprint,
            resume_at, topic, type, node);
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
  std::uint64_t next_sequence = 0;  // of the first sample on this link
  std::string machine{};            // for a mirror: its MirrorOrigin; else empty
  std::string publisher{};
  void visit(auto& archive) {
    archive(link, slots, returns, max_held, wake_slot, reliable, next_sequence, machine, publisher);
  }
};

struct Refused {
  static constexpr ControlType kType = ControlType::kRefused;
  std::uint32_t link = 0;
  std::uint32_t code = 0;  // a tensorbus::Code
  std::string text;
  void visit(auto& archive) { archive(link, code, text); }
};

struct Ended {
  static constexpr ControlType kType = ControlType::kEnded;
  std::uint32_t number = 0;   // of the link
  std::uint32_t cut_off = 0;  // 1: the subscriber blocked for lag_timeout; it may subscribe again
  void visit(auto& archive) { archive(number, cut_off); }
};

// The first message on a connection of a process that inspects this participant.
using Inspect = Notice<ControlType::kInspect>;

struct Inspected {
  static constexpr ControlType kType = ControlType::kInspected;
  std::uint64_t bytes = 0;  // of the memfd that holds the report
  void visit(auto& archive) { archive(bytes); }
};

struct TopicName {
  std::string name;
  void visit(auto& archive) { archive(name); }
};

// The first message on a connection of a tracer: requests a ring (docs/tracing.md).
struct Trace {
  static constexpr ControlType kType = ControlType::kTrace;
  std::vector<TopicName> topics;  // none: all
  void visit(auto& archive) { archive(topics); }
};

struct Traced {
  static constexpr ControlType kType = ControlType::kTraced;
  std::uint32_t layout = kTraceLayout;
  void visit(auto& archive) { archive(layout); }
};

using Unsubscribe = Notice<ControlType::kUnsubscribe>;
using Done = Notice<ControlType::kDone>;
using Event = Notice<ControlType::kEvent>;

}  // namespace tensorbus::link
