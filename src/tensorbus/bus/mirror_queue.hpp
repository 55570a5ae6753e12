#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/outcome.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/queue/mirror_events.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// A mirror: a queue that stands for one of another machine, its home (docs/internals/protocol.md,
// section 7). Local programs use it as any queue. A bridge tells the home what they do, and the
// mirror what the home answers. The object closes the mirror when it is destroyed. Thread-safe.
class TENSORBUS_API MirrorQueue {
 public:
  using Kind = bus::MirrorEvent::Kind;
  using Values = std::array<std::uint64_t, 4>;

  // Throws Error(kInvalidArgument) if the domain has a queue of this name, and for an origin
  // without names. The mirror is never `shared`.
  MirrorQueue(const QueueOptions& options, const link::MirrorOrigin& origin,
              const Participant& participant = Participant::shared());
  MirrorQueue(MirrorQueue&&) noexcept;
  MirrorQueue& operator=(MirrorQueue&&) noexcept;
  ~MirrorQueue();

  const std::string& address() const;

  // Returns a descriptor to poll: readable when there may be events since they were last taken.
  int descriptor();
  // `value` is an id (kPut, kCall, kPoll, kCancel), a tag (kTaken, kSpoilt), how many (kDemand,
  // kPassed), or for kDone and kDied a tag with `redeliver` and how many items without.
  struct Event {
    Kind kind{};
    std::uint64_t value = 0;
    link::QueueVerb verb{};    // of kCall
    std::uint64_t number = 0;  // its number
    bool waits = false;        // of kPut: for room
    Sample item{};
  };
  // Returns all events that have happened since the last call, in order. A put whose memory is not
  // here yet holds up what comes after it.
  std::vector<Event> take_events();

  // Adds an item for local gets. Tags grow: throws Error(kInvalidArgument) otherwise, and
  // Error(kOutOfMemory). For one thread.
  void offer(const Message& item, std::uint64_t tag);
  // Takes an item back that waits. Returns false if it was offered or taken, or is gone.
  bool withdraw(std::uint64_t tag);
  // Returns the tags of the items that wait for no get, the latest first.
  std::vector<std::uint64_t> surplus();
  // Answers a put, a call or a poll, once. Nothing happens if its client is dead.
  void answer(std::uint64_t id, Outcome outcome, const Values& values = {});
  void deny(std::uint64_t id, const Error& why);
  // Local gets end with kShutDown when nothing is left here, until a kDied with `redeliver`.
  // `died`: of how many such events the home had heard; if of less than all, nothing happens.
  // Empty: of all.
  void end_gets(std::optional<std::uint64_t> died = {});
  // All who wait get kClosed.
  void close();

 private:
  struct State;
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
