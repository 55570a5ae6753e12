#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

class Receiver;

// A program's subscriber: its Receiver has the links and takes samples from them.
// include/tensorbus/subscriber.hpp describes the calls and their errors. Thread-safe. After a fork
// it belongs to the parent: programs hold it in a ForkSafe. After a move, only its destructor may
// be called.
class TENSORBUS_API Subscriber {
 public:
  static constexpr const char* kMovedFrom = "this subscriber was moved from";

  // `only`: the one publisher that it joins; empty: all of the topic.
  explicit Subscriber(const std::string& topic, const SubscriberOptions& options = {},
                      const Participant& participant = Participant::shared(),
                      const std::optional<PublisherName>& only = {});
  Subscriber(Subscriber&&) noexcept = default;
  Subscriber& operator=(Subscriber&&) = delete;
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
  Outcome wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop);
  SubscriberStats stats() const;
  void close();
  // For recorders, which pace themselves and end by steps of their own.
  Receiver& receiver() const noexcept { return *receiver_; }

 private:
  std::optional<Sample> sample_of(Outcome outcome, Sample&& sample) const;

  std::shared_ptr<ParticipantCore> participant_;
  std::shared_ptr<Receiver> receiver_;
};

}  // namespace tensorbus::bus
