#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/outcome.hpp>
#include <vector>

#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/queue/mirror_events.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscribe/sample_read.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// A mirror: a queue that represents a queue on another machine, its home
// (docs/internals/protocol.md, section 7). Local programs use it like any queue. A bridge passes
// the mirror's events to the home, and the home's replies to the mirror. The object closes the
// mirror when it is destroyed. Thread-safe. After a fork it belongs to the parent: programs hold it
// in a ForkSafe.
class TENSORBUS_API MirrorQueue {
 public:
  static constexpr const char* kMovedFrom = "this queue was moved from";
  using Kind = MirrorEvent::Kind;
  using Values = std::array<std::uint64_t, 4>;

  // Throws Error(kInvalidArgument) if the domain has a queue of this name, or if a name of the
  // origin is missing. The mirror is never `shared`.
  MirrorQueue(const QueueOptions& options, const link::MirrorOrigin& origin,
              const ParticipantRef& participant = shared_participant());
  MirrorQueue(const MirrorQueue&) = delete;
  MirrorQueue& operator=(const MirrorQueue&) = delete;
  ~MirrorQueue();

  const std::string& address() const;

  // Returns a descriptor to poll: readable when events may have come since take_events().
  int descriptor();
  // `value` depends on the kind. kPut, kCall, kPoll, kCancel: an id. kTaken, kSpoilt: a tag.
  // kDemand: the number of waiting gets. kPassed: a number of items. kDone, kDied: with `redeliver`
  // a tag, without it a number of items.
  struct Event {
    Kind kind{};
    std::uint64_t value = 0;
    link::QueueVerb verb{};    // for kCall
    std::uint64_t number = 0;  // for kCall: the number in its message
    bool waits = false;        // for kPut: the put waits for room
    Sample item{};
  };
  // Returns all events since the last call, in order. A put whose memory has not arrived yet holds
  // up the later events.
  std::vector<Event> take_events();

  // Adds an item for local gets. Tags must increase. Called by one thread. Throws
  // Error(kInvalidArgument) if the tag is not larger than the last one, and Error(kOutOfMemory).
  void offer(const Message& item, std::uint64_t tag);
  // Takes back a waiting item. Returns false if it was offered or taken, or is gone.
  bool withdraw(std::uint64_t tag);
  // Returns the tags of the items for which no get waits, the latest first.
  std::vector<std::uint64_t> surplus();
  // Replies to a put, a call or a poll, once. Has no effect if the client has ended.
  void answer(std::uint64_t id, Outcome outcome, const Values& values = {});
  void deny(std::uint64_t id, const Error& why);
  // Called when the home has no more items. Local gets then end with kShutDown when no item is left
  // here, until a client dies with an item in its hand (kDied with `redeliver`). `died`: the number
  // of these deaths that the home had received; empty: all. If there have been more, the call has
  // no effect.
  void end_gets(std::optional<std::uint64_t> died = {});
  // Closes the mirror. All waiting requests end with kClosed.
  void close();

 private:
  struct PendingPut {
    Event event;
    SampleRead reading;
  };

  explicit MirrorQueue(const ParticipantRef& participant);
  void post(std::function<void(MirrorServer&)> task) const;
  template <typename T>
  T ask(std::function<T(MirrorServer&)> ask) const;
  bool read_put(std::vector<Event>& taken) TB_REQUIRES(mutex_);

  const ParticipantRef participant_;
  const std::shared_ptr<MirrorEvents> events_;
  MadeMirror mirror_;                       // has no server if it could not be made
  std::string text_;                        // the address as text
  std::atomic<std::uint64_t> last_tag_{0};  // relaxed: one thread offers items
  platform::Mutex mutex_;
  std::string marker_ TB_GUARDED_BY(mutex_);  // empty: not made, or removed
  std::optional<PendingPut> put_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
