#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/values/outcome.hpp>

namespace tensorbus::inline v0 {

// The result of a publish().
struct Published {
  Outcome outcome = Outcome::kDone;  // kDone, kTimedOut, kInterrupted or kClosed
  std::uint64_t sequence = 0;
  std::uint32_t subscribers = 0;  // that have it in their queues
};

// The result of a publish_many().
struct PublishedMany {
  Outcome outcome = Outcome::kDone;  // kDone if all were published, else as for publish()
  std::size_t count = 0;             // number of published messages, in order
  std::uint64_t sequence = 0;        // of the last one
  std::uint32_t subscribers = 0;     // that have the last one in their queues
};

// Counters of a publisher since it was made, and its present state.
struct PublisherStats {
  std::uint64_t sent = 0;            // samples published
  std::uint64_t delivered = 0;       // samples put into subscribers' queues, summed
  std::uint64_t dropped_depth = 0;   // taken out of a full queue for a newer one
  std::uint64_t dropped_held = 0;    // not queued: the subscriber holds as many as it may
  std::uint64_t dropped_unsent = 0;  // not queued: no descriptor or memory to send it
  std::uint64_t timed_out = 0;       // publish() calls that gave up waiting for room
  std::uint64_t waited = 0;          // publish() calls that had to wait
  std::uint64_t bytes_copied = 0;    // of tensors that were not in the arena
  std::uint64_t bytes_in_flight = 0;
  std::uint32_t subscribers = 0;
  std::uint32_t waiting = 0;      // threads that wait in publish()
  std::uint64_t cut_off = 0;      // subscribers cut off after `lag_timeout`
  std::uint64_t bad_returns = 0;  // invalid leases that subscribers returned
  // If a reliable publisher waits or gave up: the pid of the subscriber for whose room it has
  // waited longest, and the time; else 0.
  std::uint32_t blocked_by = 0;
  std::chrono::nanoseconds blocked_for{};
};

// Counters of a subscriber since it was made, and its present state.
struct SubscriberStats {
  std::uint64_t received = 0;
  std::uint64_t missed = 0;  // gaps in the publishers' sequences
  std::uint64_t bad = 0;     // samples with an invalid descriptor
  std::uint64_t gone = 0;    // passed-on samples whose owner was gone, or had freed the memory
  std::uint64_t staged = 0;  // samples that came from a GPU through host memory: docs/cuda.md
  std::uint32_t held = 0;    // samples whose memory this process still uses
  std::uint32_t publishers = 0;
  std::uint32_t cut_off = 0;  // how often a publisher cut it off (`lag_timeout`)
  std::uint64_t refused = 0;
  std::string last_refusal;  // why the last publisher was not connected; "" if none was refused
};

// Counters of a queue, kept by its process.
struct QueueStats {
  std::uint64_t items = 0;       // waiting
  std::uint64_t unfinished = 0;  // put and not done
  // Items got by processes that died, and items in memory that the queue's process could not map.
  std::uint64_t lost = 0;
  std::uint64_t bytes = 0;  // of waiting items
};

// How much of its shared memory a participant uses.
struct ArenaUse {
  std::size_t segments = 0;
  std::size_t blocks = 0;
  std::size_t used_bytes = 0;      // in loans and samples that are in use
  std::size_t reserved_bytes = 0;  // taken from the machine: used, or kept warm
  std::size_t budget_bytes = 0;
  std::size_t inherited_bytes = 0;  // of used_bytes: kept only for forked children
  // For the whole process, on any device:
  std::size_t inherited_leases = 0;  // of other owners' memory, kept only for forked children
  std::size_t forked_children = 0;   // forks with a living child that may use any of this
  std::size_t unwatched_forks = 0;   // forks that cannot be watched: all is kept
};

}  // namespace tensorbus::inline v0
