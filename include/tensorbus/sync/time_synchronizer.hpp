#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <tensorbus/internal/asking.hpp>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/internal/received.hpp>
#include <tensorbus/internal/time_matcher.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/subscriber.hpp>
#include <tensorbus/sync/sample_time.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

struct TimeSynchronizerOptions {
  // The maximum difference between two times of a set. 0: equal times.
  std::chrono::nanoseconds tolerance{0};
  // How many samples of each topic wait for partners; a further sample replaces the oldest. They
  // count as held: max_held of each subscriber must be larger.
  std::uint32_t queue_size = 8;
  SampleTime time{};
};

// Counters of one topic of a synchronizer. `received` is the sum of the others and of `sets`.
struct SynchronizedTopic {
  std::string topic;
  std::uint64_t received = 0;    // samples taken from the subscriber
  std::uint64_t unmatched = 0;   // dropped: no later set can have them
  std::uint64_t overflowed = 0;  // dropped for newer ones: queue_size samples were waiting
  std::uint64_t late = 0;        // dropped: an earlier sample of the topic had a later time
  std::uint64_t invalid = 0;     // their time could not be read
  std::uint64_t waiting = 0;     // wait for partners now
};

// Counters of a synchronizer since it was made.
struct TimeSynchronizerStats {
  std::uint64_t sets = 0;  // that were returned
  std::vector<SynchronizedTopic> topics{};
};

// Combines samples of several topics: one of each, whose times differ by at most the tolerance.
//
//   using namespace std::chrono_literals;
//   tensorbus::TimeSynchronizer pairs({.tolerance = 10ms, .time = "stamp"},
//                                     tensorbus::Subscriber("left"),
//                                     tensorbus::Subscriber("right"));
//   for (const auto& set : pairs) use(set[0].tensor("image"), set[1].tensor("image"));
//
// A set is returned as soon as each topic has a sample for it, in the order of the subscribers.
// Each sample is in one set at most, and the times of a topic never go back from one set to the
// next. Samples without partners are dropped and counted. docs/topics.md explains which samples are
// combined. For callbacks, see Executor::on_samples().
//
// For one thread at a time; any thread may call close(). Movable, not copyable; calls on a
// moved-from synchronizer throw Error(kClosed).
class TimeSynchronizer {
 public:
  // Throws Error(kInvalidArgument) for less than two subscribers, for one whose max_held is not
  // larger than queue_size, and for a negative tolerance or a queue_size of 0; Error(kClosed) for
  // moved-from subscribers; Error(kSystem) if no descriptors are left.
  TimeSynchronizer(TimeSynchronizerOptions options, std::vector<Subscriber> subscribers);
  template <std::same_as<Subscriber>... More>
  TimeSynchronizer(TimeSynchronizerOptions options, Subscriber first, Subscriber second,
                   More... more)
      : TimeSynchronizer(std::move(options),
                         in_a_vector(std::move(first), std::move(second), std::move(more)...)) {}

  // Receives the next set. Returns nothing after `timeout`, if `give_up` returns true, or if no
  // further set can be complete: after close(), or at the end of a stream (end_of_stream). Signals
  // do not end the call. Throws Error(kTypeMismatch) if the time of a sample is missing or is not a
  // number (the sample is dropped), what a SampleTime throws, and what Subscriber::receive()
  // throws.
  std::optional<std::vector<Sample>> receive(std::chrono::nanoseconds timeout,
                                             const GiveUp& give_up = {});
  // Returns the next set if it is complete.
  std::optional<std::vector<Sample>> try_receive();
  // Like receive() above, but returns the outcome: kDone, kTimedOut, kInterrupted, kClosed or
  // kHoldLimit.
  Outcome receive(std::vector<Sample>& set, std::chrono::nanoseconds timeout,
                  const GiveUp& give_up = {});
  Outcome try_receive(std::vector<Sample>& set);

  // The next sets, as a single-pass range that ends like Subscriber::samples(): after `timeout`, if
  // `give_up` returns true, and if no further set can be complete. If a subscriber has
  // `end_of_stream`, a timeout throws Error(kTimeout). Throws as receive() does.
  internal::Received<std::vector<Sample>> sets(
      std::chrono::nanoseconds timeout = Subscriber::kForever, GiveUp give_up = {});
  // sets() without a timeout: for (const auto& set : pairs).
  auto begin() { return sets().begin(); }
  std::default_sentinel_t end() const noexcept { return {}; }

  // For poll(), epoll and event loops: readable when try_receive() may return a set.
  int descriptor() const noexcept { return epoll_.descriptor(); }
  TimeSynchronizerStats stats() const;
  // Closes the subscribers, which ends a waiting call. A second call does nothing.
  void close() {
    for (Topic& each : topics_) each.subscriber.close();
  }

 private:
  // Samples that are taken without a look at the deadline.
  static constexpr std::size_t kMaxTaken = 64;

  struct Topic {
    Subscriber subscriber;
    bool may_have_more = true;  // in this turn
    bool watched = false;
    std::uint64_t received = 0;
    std::uint64_t invalid = 0;
  };

  template <typename... Subscribers>
  static std::vector<Subscriber> in_a_vector(Subscribers... subscribers) {
    std::vector<Subscriber> all;
    (all.push_back(std::move(subscribers)), ...);
    return all;
  }
  Outcome next(std::vector<Sample>& set, bool& more);
  bool has_end_of_stream() const {
    for (const Topic& each : topics_)
      if (each.subscriber.end_of_stream_) return true;
    return false;
  }
  std::optional<std::size_t> most_behind() const;
  Outcome take(std::size_t index, Sample& sample);
  std::int64_t time_of(std::size_t index, const Sample& sample);

  TimeSynchronizerOptions options_;
  std::vector<Topic> topics_{};
  internal::TimeMatcher<Sample> matcher_;
  internal::Epoll epoll_{};
};

inline TimeSynchronizer::TimeSynchronizer(TimeSynchronizerOptions options,
                                          std::vector<Subscriber> subscribers)
    : options_(std::move(options)),
      matcher_(subscribers.size(), static_cast<std::uint64_t>(options_.tolerance.count()),
               options_.queue_size) {
  if (subscribers.size() < 2)
    throw Error(Code::kInvalidArgument, "a synchronizer needs at least two subscribers");
  if (options_.tolerance.count() < 0 || options_.queue_size == 0)
    throw Error(Code::kInvalidArgument, "tolerance must be at least 0, and queue_size at least 1");
  for (Subscriber& each : subscribers) {
    if (each.max_held_ <= options_.queue_size)
      throw Error(Code::kInvalidArgument,
                  "max_held (" + std::to_string(each.max_held_) + ") of the subscriber of \"" +
                      each.topic() + "\" must be larger than queue_size (" +
                      std::to_string(options_.queue_size) + "): these samples are held");
    epoll_.add(each.event_descriptor(), topics_.size());
    topics_.push_back({.subscriber = std::move(each), .watched = true});
  }
}

inline Outcome TimeSynchronizer::receive(std::vector<Sample>& set, std::chrono::nanoseconds timeout,
                                         const GiveUp& give_up) {
  const internal::Deadline deadline(timeout);
  const std::chrono::nanoseconds slice =
      give_up ? internal::kGiveUpSlice : std::chrono::nanoseconds::max();
  while (true) {
    bool more = false;
    const Outcome outcome = next(set, more);
    if (outcome != Outcome::kTimedOut || deadline.passed()) return outcome;
    if (give_up && give_up()) return Outcome::kInterrupted;
    if (!more) internal::wait_until_readable(descriptor(), deadline.remaining(slice));
  }
}

inline Outcome TimeSynchronizer::try_receive(std::vector<Sample>& set) {
  bool more = true;
  Outcome outcome = Outcome::kTimedOut;
  while (more && outcome == Outcome::kTimedOut) outcome = next(set, more);
  return outcome;
}

namespace internal {

inline void require_room_to_hold(Outcome outcome) {
  if (outcome == Outcome::kHoldLimit)
    throw Error(Code::kInvalidArgument,
                "max_held samples of one publisher are held: release some, or raise max_held");
}

inline std::optional<std::vector<Sample>> set_or_nothing(Outcome outcome, std::vector<Sample> set) {
  require_room_to_hold(outcome);
  if (outcome != Outcome::kDone) return std::nullopt;
  return set;
}

}  // namespace internal

inline std::optional<std::vector<Sample>> TimeSynchronizer::receive(
    std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  std::vector<Sample> set;
  const Outcome outcome = receive(set, timeout, give_up);
  return internal::set_or_nothing(outcome, std::move(set));
}

inline std::optional<std::vector<Sample>> TimeSynchronizer::try_receive() {
  std::vector<Sample> set;
  const Outcome outcome = try_receive(set);
  return internal::set_or_nothing(outcome, std::move(set));
}

inline internal::Received<std::vector<Sample>> TimeSynchronizer::sets(
    std::chrono::nanoseconds timeout, GiveUp give_up) {
  using Set = std::vector<Sample>;
  return internal::Received<Set>([this, timeout, give_up = std::move(give_up)](Set& set) {
    const Outcome outcome = receive(set, timeout, give_up);
    if (outcome == Outcome::kTimedOut && has_end_of_stream())
      throw Error(Code::kTimeout, "no complete set in time, and no stream has ended");
    internal::require_room_to_hold(outcome);
    return outcome;
  });
}

// Takes samples until a set is complete. kTimedOut: there is none; `more` says whether more samples
// may be there.
inline Outcome TimeSynchronizer::next(std::vector<Sample>& set, bool& more) {
  if (topics_.empty()) throw Error(Code::kClosed, "this synchronizer was moved from");
  set.clear();
  for (Topic& each : topics_) each.may_have_more = true;
  std::optional<std::size_t> index = most_behind();
  for (std::size_t taken = 0; index && taken < kMaxTaken; ++taken, index = most_behind()) {
    Sample sample;
    const Outcome outcome = take(*index, sample);
    if (outcome == Outcome::kHoldLimit) return outcome;
    topics_[*index].may_have_more = outcome == Outcome::kDone;
    if (outcome != Outcome::kDone) continue;
    const std::int64_t time = time_of(*index, sample);
    if (matcher_.add(*index, time, std::move(sample), set)) return Outcome::kDone;
  }
  more = index.has_value();
  for (std::size_t i = 0; i < topics_.size(); ++i)
    if (!more && !topics_[i].watched && matcher_.topics()[i].waiting.empty())
      return Outcome::kClosed;
  return Outcome::kTimedOut;
}

// Returns the topic whose times are most behind, of those that may have more samples now.
inline std::optional<std::size_t> TimeSynchronizer::most_behind() const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < topics_.size(); ++i)
    if (topics_[i].may_have_more &&
        (!found || matcher_.topics()[i].newest < matcher_.topics()[*found].newest))
      found = i;
  return found;
}

// A subscriber that is closed, or whose stream has ended, is not watched: its descriptor stays
// readable, which would end every wait.
inline Outcome TimeSynchronizer::take(std::size_t index, Sample& sample) {
  Topic& topic = topics_[index];
  const Outcome outcome = topic.subscriber.try_receive(sample);
  if (outcome == Outcome::kDone) ++topic.received;
  const bool watched = outcome != Outcome::kClosed;
  if (watched && !topic.watched) epoll_.add(topic.subscriber.event_descriptor(), index);
  if (!watched && topic.watched) epoll_.remove(topic.subscriber.event_descriptor());
  topic.watched = watched;
  return outcome;
}

inline std::int64_t TimeSynchronizer::time_of(std::size_t index, const Sample& sample) {
  try {
    if (options_.time) return options_.time(sample);
    const std::uint64_t time = sample.header().timestamp_ns;
    if (time > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw Error(Code::kTypeMismatch, "timestamp_ns is not within 63 bits");
    return static_cast<std::int64_t>(time);
  } catch (...) {
    ++topics_[index].invalid;
    throw;
  }
}

inline TimeSynchronizerStats TimeSynchronizer::stats() const {
  TimeSynchronizerStats stats{.sets = matcher_.sets()};
  for (std::size_t i = 0; i < topics_.size(); ++i) {
    const auto& matched = matcher_.topics()[i];
    stats.topics.push_back({.topic = topics_[i].subscriber.topic(),
                            .received = topics_[i].received,
                            .unmatched = matched.unmatched,
                            .overflowed = matched.overflowed,
                            .late = matched.late,
                            .invalid = topics_[i].invalid,
                            .waiting = matched.waiting.size()});
  }
  return stats;
}

}  // namespace tensorbus::inline v0
