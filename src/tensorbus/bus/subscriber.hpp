#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus {

struct SubscriberState;

// Receives the samples of every publisher of a topic, in any process of the domain, whichever
// starts first. Thread-safe. Every call throws Error(kOutOfMemory) that names the limit when it
// meets one; of a subscriber that was moved from, Error(kClosed).
//
//   tensorbus::Subscriber subscriber("camera/image");
//   while (auto sample = subscriber.receive(std::chrono::seconds(1)))
//     use(sample->tensor().as<std::uint8_t>());
//
// To write to what comes, say for whom: for itself (kPrivate), or for all (kShared).
//
//   tensorbus::Subscriber editing("camera/image", {.access = tensorbus::Access::kPrivate});
//   if (auto sample = editing.receive(std::chrono::seconds(1)))
//     draw_boxes(sample->tensor().as_mutable<std::uint8_t>());  // nobody else sees them
class TENSORBUS_API Subscriber {
 public:
  explicit Subscriber(const std::string& topic, const SubscriberOptions& options = {},
                      const Participant& participant = Participant::shared());
  Subscriber(Subscriber&&) noexcept;
  Subscriber& operator=(Subscriber&&) noexcept;
  ~Subscriber();  // close()

  const std::string& topic() const;

  // The next sample, or nothing after `timeout` or close(). Goes on after signals.
  // Throws Error(kInvalidArgument) when max_held samples are held and there are more, and
  // Error(kOutOfMemory) that names the limit when there is no memory for a sample's records or,
  // with Access::kPrivate or a `device`, no room for what is its own; it is not lost, the next call
  // tries again.
  std::optional<Sample> receive(std::chrono::nanoseconds timeout);
  // The next sample if there is one now.
  std::optional<Sample> try_receive();
  // The same with every outcome told: kDone, kTimedOut, kInterrupted, kClosed or kHoldLimit.
  Outcome receive(Sample& sample, std::chrono::nanoseconds timeout);
  Outcome try_receive(Sample& sample);
  // The same of several at once, up to as many as there is room for: waits for the first, and takes
  // what else is there. The first `count` samples are new then, in the order in which receive()
  // would have given them; all of them let go of what they had before. What ends it after the first
  // is said by the next call.
  Outcome receive_many(std::span<Sample> samples, std::size_t& count,
                       std::chrono::nanoseconds timeout);

  // Would receive() return now: is there a sample, or max_held reached, or is it closed? Takes
  // nothing.
  bool ready();

  // For poll(), epoll and event loops: readable when try_receive() may find something. Owned by
  // the subscriber. Call try_receive() until it finds nothing, or ready() until it says no; that
  // re-arms the descriptor.
  int event_descriptor();

  Outcome wait_for_publishers(std::uint32_t count, std::chrono::nanoseconds timeout);
  SubscriberStats stats() const;
  // Samples that are held stay valid. A second call does nothing.
  void close();

 private:
  struct Impl;
  SubscriberState& state() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbus
