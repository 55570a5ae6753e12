#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscribe/missing_samples.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

// A program's subscriber, for the C interface and the Python extension. It closes the subscriber
// when it is destroyed; bus::SubscriberCore receives. include/tensorbus/subscriber.hpp describes
// the calls and their errors. Thread-safe.
class TENSORBUS_API Subscriber {
 public:
  // `only`: the one publisher that it joins; empty: all of the topic.
  explicit Subscriber(const std::string& topic, const SubscriberOptions& options = {},
                      const Participant& participant = Participant::shared(),
                      const std::optional<bus::PublisherName>& only = {});
  Subscriber(Subscriber&&) noexcept;
  Subscriber& operator=(Subscriber&&) noexcept;
  ~Subscriber();  // close()

  // Returns the next sample, or nothing. Goes on after signals. Throws Error(kInvalidArgument) when
  // max_held samples of one publisher are held and more are waiting.
  std::optional<Sample> receive(const platform::StopCondition& stop);
  std::optional<Sample> try_receive();
  // Returns kDone, kTimedOut, kInterrupted, kClosed or kHoldLimit.
  Outcome receive(Sample& sample, const platform::StopCondition& stop);
  Outcome try_receive(Sample& sample);
  // Receives several samples at once. The first `count` of `samples` are new then.
  Outcome receive_many(std::span<Sample> samples, std::size_t& count,
                       const platform::StopCondition& stop);
  // Receives messages of one tensor, each into a row of an array; `count` rows are new then.
  // `rows`: contiguous. Throws Error(kInvalidArgument) if the first message is no row: receive()
  // returns it.
  Outcome receive_into(void* first, const Layout& rows, std::size_t& count,
                       const platform::StopCondition& stop);
  bool ready();

  int event_descriptor();
  // For a program that looks by itself every few milliseconds: SubscriberCore::notify_lazily().
  void notify_lazily(bool lazily);
  bool has_set_aside() const;
  void refuse_set_aside(const char* why);
  // For a program that ends: SubscriberCore::stop_here(), has_left(), miss_what_is_left().
  void stop_here() noexcept;
  bool has_left() const;
  void miss_what_is_left() noexcept;
  std::size_t links() const;
  Outcome wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop);
  SubscriberStats stats() const;
  void close();
  // With Device::host(): returns the samples since the last call that it does not get, at most
  // 1,024 gaps.
  std::vector<bus::MissingSamples> take_missing();

 private:
  struct State;
  std::optional<Sample> sample_of(Outcome outcome, Sample&& sample) const;

  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
