#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "tensorbus/bus/event_loop/change_event.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// An event for the home of a mirror (mirror_table.hpp).
struct MirrorEvent {
  enum class Kind : std::uint8_t {
    kDemand,
    kPut,
    kCall,
    kPoll,
    kCancel,
    kTaken,
    kSpoilt,
    kDone,
    kDied,
    kPassed,
  };
  Kind kind{};
  std::uint64_t value = 0;  // an id, a tag, or a number of items
  link::QueueVerb verb{};   // for kCall
  std::uint64_t number = 0;
  bool waits = false;  // for kPut
  LentRef item{};
};

// Passes these events from the event loop to the program that has the mirror, in order.
// Thread-safe.
class MirrorEvents {
 public:
  // Returns a descriptor to poll: readable from a push() to the next clear(), and at the start.
  int descriptor() { return event_.descriptor(); }
  void signal() noexcept { event_.signal(); }
  // Called before the events are taken: an event that comes later signals again.
  void clear() noexcept { event_.clear(); }

  // Adds an event. Keeps only the last of consecutive demands.
  void push(MirrorEvent event) {
    {
      const platform::MutexLock lock(mutex_);
      constexpr auto kDemand = MirrorEvent::Kind::kDemand;
      if (event.kind == kDemand && !events_.empty() && events_.back().kind == kDemand)
        events_.back() = std::move(event);
      else
        events_.push_back(std::move(event));
    }
    event_.signal();
  }
  std::optional<MirrorEvent> pop() {
    const platform::MutexLock lock(mutex_);
    if (events_.empty()) return std::nullopt;
    MirrorEvent first = std::move(events_.front());
    events_.pop_front();
    return first;
  }

 private:
  ChangeEvent event_;
  platform::Mutex mutex_;
  std::deque<MirrorEvent> events_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
