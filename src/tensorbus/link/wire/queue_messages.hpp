#pragma once

#include <cstdint>

#include "tensorbus/link/wire/lease_messages.hpp"

// Messages between the clients of a queue and its server (docs/internals/protocol.md, section 7).
namespace tensorbus::link {

// Names a queue of the receiver.
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

// Asks for the get ring, by which the server lends items ahead (prefetch_ring.hpp).
struct Prefetch {
  static constexpr ControlType kType = ControlType::kPrefetch;
  std::uint32_t request = 0;
  QueueName queue;
  void visit(auto& archive) { archive(request, queue); }
};

// The reply, with the ring's memory.
struct PrefetchRing {
  static constexpr ControlType kType = ControlType::kPrefetchRing;
  std::uint32_t request = 0;
  std::uint32_t taker = 0;   // the number by which the client claims items
  std::uint64_t leases = 0;  // the token of the lease at position p is leases + p
  void visit(auto& archive) { archive(request, taker, leases); }
};

// Wakes the server, which waits for an entry in the client's ring, or for the claim of an item.
struct QueueWake {
  static constexpr ControlType kType = ControlType::kQueueWake;
  QueueName queue;
  void visit(auto& archive) { archive(queue); }
};

struct Get {
  static constexpr ControlType kType = ControlType::kGet;
  static constexpr std::uint32_t kWait = 1;  // wait for an item
  static constexpr std::uint32_t kHold = 2;  // others see the item until TAKE
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
  // one). For kShutDown: 1 drops the waiting items.
  std::uint64_t number = 0;
  void visit(auto& archive) { archive(request, queue, verb, number); }
};

struct Cancel {
  static constexpr ControlType kType = ControlType::kCancel;
  std::uint32_t request = 0;
  std::uint32_t read = 0;  // 1: the client has read the refused item: its memory exists
  void visit(auto& archive) { archive(request, read); }
};

struct Reply {
  static constexpr ControlType kType = ControlType::kReply;
  static constexpr std::uint32_t kTimedOut = 1;  // no room, or no item
  static constexpr std::uint32_t kShutDown = 2;  // the queue accepts nothing, or nothing is left
  std::uint32_t request = 0;
  std::uint32_t refused = 0;  // 0, or one of the constants
  // For kOpen: maxsize, flags, key, max_bytes. For kState: items, unfinished, lost, bytes. For
  // kShutDown: items, the number of other clients that asked for one, and whether this one did.
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  std::uint64_t fourth = 0;
  void visit(auto& archive) { archive(request, refused, first, second, third, fourth); }
};

}  // namespace tensorbus::link
