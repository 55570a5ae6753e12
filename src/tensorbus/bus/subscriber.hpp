#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/subscribe/publisher_end.hpp"
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

  // `only`: the subscriber joins only this publisher; empty: all publishers of the topic.
  explicit Subscriber(const std::string& topic, const SubscriberOptions& options = {},
                      const ParticipantRef& participant = shared_participant(),
                      const std::optional<PublisherName>& only = {});
  Subscriber(Subscriber&&) noexcept = default;
  Subscriber& operator=(Subscriber&&) = delete;
  ~Subscriber();  // close()

  // Returns the next sample, or nothing. Continues to wait after signals. Throws
  // Error(kInvalidArgument) when max_held samples of one publisher are held and more are waiting.
  std::optional<Sample> receive(const platform::StopCondition& stop);
  std::optional<Sample> try_receive();
  // Returns kDone, kTimedOut, kInterrupted, kClosed or kHoldLimit.
  Outcome receive(Sample& sample, const platform::StopCondition& stop);
  Outcome try_receive(Sample& sample);
  // Receives several samples at once. On return, the first `count` of `samples` are new.
  Outcome receive_many(std::span<Sample> samples, std::size_t& count,
                       const platform::StopCondition& stop);
  // Receives messages of one tensor, each into a row of an array. On return, `count` rows are new.
  // `rows`: the layout of the array, contiguous. Throws Error(kInvalidArgument) if the first
  // message does not fit a row; receive() returns this message.
  Outcome receive_into(void* first, const Layout& rows, std::size_t& count,
                       const platform::StopCondition& stop);
  bool ready();

  int event_descriptor();
  Outcome wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop);
  SubscriberStats stats() const;
  // See Receiver.
  void watch_publisher_ends();
  std::vector<PublisherEnd> take_publisher_ends();
  void close();
  // For recorders, which control when the receiver notifies and where it ends.
  Receiver& receiver() const noexcept { return *receiver_; }

 private:
  std::optional<Sample> sample_of(Outcome outcome, Sample&& sample) const;

  ParticipantRef participant_;
  std::shared_ptr<Receiver> receiver_;
};

}  // namespace tensorbus::bus
