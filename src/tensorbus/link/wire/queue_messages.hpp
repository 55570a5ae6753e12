#pragma once

#include <array>
#include <cstdint>

#include "tensorbus/link/wire/lease_messages.hpp"

// Messages between the clients of a queue and its server (docs/internals/protocol.md, section 7).
namespace tensorbus::link {

// Identifies a queue of the receiver.
struct QueueName {
  std::uint64_t number = 0;
  std::uint64_t key = 0;
  void visit(auto& archive) { archive(number, key); }
  bool operator==(const QueueName&) const = default;
};

struct Put {
  static constexpr ControlType kType = ControlType::kPut;
  static constexpr std::uint32_t kWait = 1;  // wait for room
  std::uint32_t request = 0;
  QueueName queue;
  std::uint32_t flags = 0;
  Lent lent;
  void visit(auto& archive) { archive(request, queue, flags, lent); }
};

// Offers the server a ring by which the client puts items (put_ring.hpp), with its memory.
struct QueueRing {
  static constexpr ControlType kType = ControlType::kQueueRing;
  std::uint32_t request = 0;
  QueueName queue;
  void visit(auto& archive) { archive(request, queue); }
};

// Requests the get ring, through which the server lends items in advance (get_ring.hpp).
struct JoinGetRing {
  static constexpr ControlType kType = ControlType::kJoinGetRing;
  std::uint32_t request = 0;
  QueueName queue;
  void visit(auto& archive) { archive(request, queue); }
};

// The reply to JOIN_GET_RING, with the ring's memory.
struct GetRing {
  static constexpr ControlType kType = ControlType::kGetRing;
  std::uint32_t request = 0;
  std::uint32_t taker = 0;   // the number by which the client acquires items
  std::uint64_t leases = 0;  // the token of the lease at position p is leases + p
  void visit(auto& archive) { archive(request, taker, leases); }
};

// Wakes the server, which waits for an entry in the client's ring, or for a taker of an item.
struct QueueWake {
  static constexpr ControlType kType = ControlType::kQueueWake;
  QueueName queue;
  void visit(auto& archive) { archive(queue); }
};

struct Get {
  static constexpr ControlType kType = ControlType::kGet;
  static constexpr std::uint32_t kWait = 1;  // wait for an item
  static constexpr std::uint32_t kHold = 2;  // other clients may see the item until TAKE
  std::uint32_t request = 0;
  QueueName queue;
  std::uint32_t flags = 0;
  void visit(auto& archive) { archive(request, queue, flags); }
};

// Accepts the offered item.
struct Take {
  static constexpr ControlType kType = ControlType::kTake;
  std::uint32_t request = 0;  // of the GET
  QueueName queue;
  std::uint32_t spoilt = 0;  // 1: the item's memory is gone, so no client can get it
  void visit(auto& archive) { archive(request, queue, spoilt); }
};

enum class QueueVerb : std::uint32_t {
  kOpen,
  kState,
  kTaskDone,
  kJoin,
  kClose,
  kShutDown,
  kDrain,
  kGiveBack,
};

struct QueueCall {
  static constexpr ControlType kType = ControlType::kQueue;
  std::uint32_t request = 0;
  QueueName queue;
  std::uint32_t verb = 0;  // a QueueVerb
  // For kTaskDone and kGiveBack: the number of the item; without `redeliver`, how many items (0:
  // one). For kShutDown: 1 drops the waiting items. For kDrain: 1 also waits for a shutdown.
  std::uint64_t number = 0;
  void visit(auto& archive) { archive(request, queue, verb, number); }
};

struct Cancel {
  static constexpr ControlType kType = ControlType::kCancel;
  std::uint32_t request = 0;
  std::uint32_t read = 0;  // 1: the client has read the refused item: its memory exists
  void visit(auto& archive) { archive(request, read); }
};

// The numbers in a reply to a call. Their meaning depends on the verb: see the three structs below.
using ReplyValues = std::array<std::uint64_t, 4>;

// In the reply to kOpen.
struct QueueSettings {
  static constexpr std::uint64_t kRedeliver = 1;
  static constexpr std::uint64_t kShared = 2;
  std::uint64_t maxsize = 0;
  bool redeliver = false;
  bool shared = false;
  std::uint64_t key = 0;
  std::uint64_t max_bytes = 0;

  static QueueSettings of(const ReplyValues& values) noexcept {
    const auto& [maxsize, flags, key, max_bytes] = values;
    return {maxsize, (flags & kRedeliver) != 0, (flags & kShared) != 0, key, max_bytes};
  }
  ReplyValues values() const noexcept {
    return {maxsize, (redeliver ? kRedeliver : 0) | (shared ? kShared : 0), key, max_bytes};
  }
};

// In the reply to kState.
struct QueueState {
  std::uint64_t items = 0;
  std::uint64_t unfinished = 0;
  std::uint64_t lost = 0;
  std::uint64_t bytes = 0;

  static QueueState of(const ReplyValues& values) noexcept {
    return {values[0], values[1], values[2], values[3]};
  }
  ReplyValues values() const noexcept { return {items, unfinished, lost, bytes}; }
};

// In the reply to kShutDown: the remaining items, and the clients that asked for items.
struct QueueRest {
  std::uint64_t items = 0;
  std::uint64_t other_getters = 0;  // other clients that have asked for an item
  bool has_asked = false;           // this client has asked for an item

  static QueueRest of(const ReplyValues& values) noexcept {
    return {values[0], values[1], values[2] != 0};
  }
  ReplyValues values() const noexcept { return {items, other_getters, has_asked ? 1U : 0U, 0}; }
};

struct Reply {
  static constexpr ControlType kType = ControlType::kReply;
  static constexpr std::uint32_t kTimedOut = 1;  // no room, or no item
  static constexpr std::uint32_t kShutDown = 2;  // the queue accepts no items, or has none left
  std::uint32_t request = 0;
  std::uint32_t refused = 0;  // 0, or one of the constants
  ReplyValues values{};       // of QueueSettings, QueueState or QueueRest; else 0
  void visit(auto& archive) {
    archive(request, refused, values[0], values[1], values[2], values[3]);
  }
};

}  // namespace tensorbus::link
