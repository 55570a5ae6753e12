#pragma once

#include <tensorbus/c/subscriber.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/internal/received.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

// Receives the samples of every publisher of a topic, in any process of the domain; either side may
// start first. Movable, not copyable. Thread-safe. A call that reaches a limit throws
// Error(kOutOfMemory), which names the limit. Receiving throws Error(kTypeMismatch) once for each
// publisher whose messages it cannot read. Calls on a moved-from subscriber throw Error(kClosed).
//
//   tensorbus::Subscriber subscriber("camera/image");
//   for (const tensorbus::Sample& sample : subscriber) use(sample.tensor().as<std::uint8_t>());
//
// To write to received tensors, choose whether only this subscriber sees the writes (kPrivate), or
// all holders (kShared).
//
//   tensorbus::Subscriber editing("camera/image", {.access = tensorbus::Access::kPrivate});
//   if (auto sample = editing.receive(std::chrono::seconds(1)))
//     draw_boxes(sample->tensor().as_mutable<std::uint8_t>());  // no other process sees them
//
// For callbacks of several subscribers, see Executor.
class Subscriber {
 public:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  // Throws Error(kInvalidArgument) for an empty topic, Error(kUnsupported) if the options request
  // pinned memory and memory cannot be pinned here.
  explicit Subscriber(const std::string& topic, const SubscriberOptions& options = {},
                      const Participant& participant = Participant::shared());

  const std::string& topic() const {
    get();
    return topic_;
  }

  // Receives the next sample. Returns nothing after `timeout`, after close(), or if `give_up`
  // returns true (a std::stop_token is a GiveUp). Signals do not end the call. Throws
  // Error(kInvalidArgument) if max_held samples are held and more are waiting. Throws
  // Error(kOutOfMemory), which names the limit, if there is no memory for the sample's records or,
  // with Access::kPrivate, no room to map it. The sample is then not lost: the next call tries
  // again.
  std::optional<Sample> receive(std::chrono::nanoseconds timeout, const GiveUp& give_up = {});
  // Returns the next sample if one is waiting.
  std::optional<Sample> try_receive();
  // Like receive() above, but returns the outcome: kDone, kTimedOut, kInterrupted, kClosed or
  // kHoldLimit.
  Outcome receive(Sample& sample, std::chrono::nanoseconds timeout, const GiveUp& give_up = {});
  Outcome try_receive(Sample& sample) { return receive_within(sample, TB_NOW, nullptr); }

  // The next samples, as a single-pass range. A step of the loop releases its sample, and waits for
  // the next one. The range ends after `timeout` without a sample, after close(), and if `give_up`
  // returns true. With `end_of_stream` it ends with the stream, and a timeout throws
  // Error(kTimeout). An exception ends it, too; another loop goes on with the next sample. Throws
  // as receive() does. `auto` instead of `const Sample&` takes the sample out of the range, to keep
  // it.
  //
  //   for (const tensorbus::Sample& sample : subscriber.samples(std::chrono::seconds(1)))
  //     use(sample.tensor().as<float>());
  //
  // typed_message.hpp has messages<Struct>(subscriber), the same with structs.
  internal::Received<Sample> samples(std::chrono::nanoseconds timeout = kForever,
                                     GiveUp give_up = {});
  // samples() without a timeout: for (const tensorbus::Sample& sample : subscriber).
  auto begin() { return samples().begin(); }
  std::default_sentinel_t end() const noexcept { return {}; }

  // Calls `callback` with each sample, in this thread, until it returns false (a callback without a
  // result goes on), or until samples() would end. Returns what ended it: kDone (the callback
  // returned false), kTimedOut, kInterrupted (`give_up` returned true) or kClosed (close(), or the
  // end of the stream). Throws as samples() does, and what the callback throws. A callback that
  // takes a Sample by value may keep it.
  //
  //   subscriber.for_each([](const tensorbus::Sample& sample) { use(sample.tensor()); });
  template <typename Callback>
  Outcome for_each(Callback&& callback, std::chrono::nanoseconds timeout = kForever,
                   const GiveUp& give_up = {});

  // Receives at most `most` samples, in the order of receive(). Waits for the first sample like
  // receive(), then takes the samples that are already available. Returns none after `timeout`,
  // after close(), or if `give_up` returns true. If another outcome or an error follows the first
  // sample, the next call returns or throws it. This is faster for many small messages, because it
  // takes its locks, and notifies the publishers, once for all samples. Throws as receive() does.
  //
  //   for (const tensorbus::Sample& sample : subscriber.receive_many(64, std::chrono::seconds(1)))
  //     use(sample.fields());
  std::vector<Sample> receive_many(std::size_t most, std::chrono::nanoseconds timeout,
                                   const GiveUp& give_up = {});
  // Like receive_many() above, but receives into existing samples and returns the outcome. The
  // first `count` samples are new. All samples release their previous contents.
  Outcome receive_many(std::span<Sample> samples, std::size_t& count,
                       std::chrono::nanoseconds timeout, const GiveUp& give_up = {});

  // Receives messages of one tensor into the rows of an array. Waits for the first message like
  // receive(), then takes the messages that are already available. Copies each into the next row,
  // and holds no message afterwards. The first `count` rows are new. This is faster for many small
  // messages, because it makes no samples. `layout` describes the array, which must be contiguous;
  // its first dimension is the number of rows. Throws as receive() does, and
  // Error(kInvalidArgument) if the next message is not a tensor with the dtype and shape of a row;
  // receive() then returns that message.
  //   std::vector<float> poses(1000 * 7);
  //   std::size_t count = 0;
  //   subscriber.receive_into(poses.data(), {1000, 7}, count, std::chrono::seconds(1));
  Outcome receive_into(void* rows, const Layout& layout, std::size_t& count,
                       std::chrono::nanoseconds timeout, const GiveUp& give_up = {});
  template <typename T>
  Outcome receive_into(T* rows, Dims shape, std::size_t& count, std::chrono::nanoseconds timeout,
                       const GiveUp& give_up = {}) {
    return receive_into(rows, Layout::contiguous(dtype_of<T>(), std::move(shape)), count, timeout,
                        give_up);
  }

  // Returns true if receive() would return now: a sample is waiting, max_held is reached, or it is
  // closed. Takes nothing.
  bool ready() { return tb_subscriber_ready(get()) != 0; }

  // Returns a descriptor for poll(), epoll and event loops, which the subscriber owns. It is
  // readable when try_receive() may return a sample. To re-arm it, call try_receive() until it
  // returns nothing, or ready() until it returns false.
  int event_descriptor();

  // Waits for `count` publishers. Returns kDone, kTimedOut, kInterrupted or kClosed.
  Outcome wait_for_publishers(std::uint32_t count, std::chrono::nanoseconds timeout,
                              const GiveUp& give_up = {});
  SubscriberStats stats() const;
  // Closes the subscriber. Held samples stay valid. A second call does nothing.
  void close() { tb_subscriber_close(get()); }

 private:
  friend class TimeSynchronizer;
  tb_subscriber* get() const { return internal::living(subscriber_, "subscriber"); }
  Outcome receive_within(Sample& sample, std::int64_t timeout_ns, const tb_give_up* give_up) {
    return internal::receive_into(sample, [&](tb_sample** given) {
      return tb_subscriber_receive(get(), timeout_ns, give_up, given);
    });
  }
  bool received(Outcome outcome) const;
  Outcome next(Sample& sample, std::chrono::nanoseconds timeout, const GiveUp& give_up);
  std::string last_refusal() const;

  internal::Owned<tb_subscriber, tb_subscriber_destroy> subscriber_;
  std::string topic_;
  std::uint32_t max_held_ = 0;
  bool end_of_stream_ = false;
};

inline Subscriber::Subscriber(const std::string& topic, const SubscriberOptions& options,
                              const Participant& participant)
    : topic_(topic), max_held_(options.max_held), end_of_stream_(options.end_of_stream) {
  tb_subscriber_options given = TB_SUBSCRIBER_OPTIONS_INIT;
  given.depth = options.depth;
  given.max_held = options.max_held;
  given.access = static_cast<std::int32_t>(options.access);
  given.spin_ns = options.spin.count();
  given.type = internal::c_text_or_null(options.type.definition(), "the type");
  given.pin = options.pin ? 1 : 0;
  given.best_effort = options.reliable ? 0 : 1;
  given.end_of_stream = options.end_of_stream ? 1 : 0;
  given.node = internal::c_text_or_null(options.node, "the node");
  given.restores = options.device ? 1 : 0;
  given.device = internal::number_of(options.device.value_or(Device::cuda(0)));
  subscriber_ = internal::created<decltype(subscriber_)>([&](tb_subscriber** made) {
    return tb_subscriber_create(internal::get(participant), internal::c_text(topic, "the topic"),
                                &given, made);
  });
}
static_assert(static_cast<std::int32_t>(Access::kRead) == TB_ACCESS_READ &&
              static_cast<std::int32_t>(Access::kPrivate) == TB_ACCESS_PRIVATE &&
              static_cast<std::int32_t>(Access::kShared) == TB_ACCESS_SHARED);

// Returns true if a sample was received. Throws for kHoldLimit.
inline bool Subscriber::received(Outcome outcome) const {
  if (outcome == Outcome::kHoldLimit)
    throw Error(Code::kInvalidArgument,
                "max_held (" + std::to_string(max_held_) +
                    ") samples of one publisher are held: release some, or raise max_held");
  return outcome == Outcome::kDone;
}

inline Outcome Subscriber::receive(Sample& sample, std::chrono::nanoseconds timeout,
                                   const GiveUp& give_up) {
  if (!give_up) return receive_within(sample, timeout.count(), nullptr);
  internal::Asked asked(give_up);
  return internal::receive_into(sample, [&](tb_sample** given) {
    return asked.ended(tb_subscriber_receive(get(), timeout.count(), asked.get(), given));
  });
}

inline std::optional<Sample> Subscriber::receive(std::chrono::nanoseconds timeout,
                                                 const GiveUp& give_up) {
  std::optional<Sample> sample(std::in_place);
  const Outcome outcome = internal::despite_signals(
      timeout, give_up, [&](auto left) { return receive(*sample, left, give_up); });
  if (!received(outcome)) sample.reset();
  return sample;
}

// Receives the next sample of samples(): returns the outcome that ends it, or throws.
inline Outcome Subscriber::next(Sample& sample, std::chrono::nanoseconds timeout,
                                const GiveUp& give_up) {
  const Outcome outcome = internal::despite_signals(
      timeout, give_up, [&](auto left) { return receive(sample, left, give_up); });
  if (outcome == Outcome::kTimedOut && end_of_stream_)
    throw Error(Code::kTimeout,
                "no sample on \"" + topic_ + "\" in time, and the stream has not ended");
  (void)received(outcome);
  return outcome;
}

inline internal::Received<Sample> Subscriber::samples(std::chrono::nanoseconds timeout,
                                                      GiveUp give_up) {
  return internal::Received<Sample>([this, timeout, give_up = std::move(give_up)](Sample& sample) {
    return next(sample, timeout, give_up);
  });
}

template <typename Callback>
Outcome Subscriber::for_each(Callback&& callback, std::chrono::nanoseconds timeout,
                             const GiveUp& give_up) {
  using Result = std::invoke_result_t<Callback&, Sample>;
  static_assert(std::is_void_v<Result> || std::is_same_v<Result, bool>,
                "the callback returns nothing, or a bool: false ends the loop");
  while (true) {
    Sample sample;
    const Outcome outcome = next(sample, timeout, give_up);
    if (outcome != Outcome::kDone) return outcome;
    if constexpr (std::is_void_v<Result>)
      std::invoke(callback, std::move(sample));
    else if (!std::invoke(callback, std::move(sample)))
      return Outcome::kDone;
  }
}

inline Outcome Subscriber::receive_many(std::span<Sample> samples, std::size_t& count,
                                        std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  count = 0;
  for (Sample& sample : samples) sample.let_go();
  std::array<tb_sample*, 64> few;
  std::vector<tb_sample*> many(samples.size() > few.size() ? samples.size() : 0);
  tb_sample** const given = many.empty() ? few.data() : many.data();
  internal::Asked asked(give_up);
  const tb_status status = tb_subscriber_receive_many(get(), given, samples.size(), timeout.count(),
                                                      asked.get(), &count);
  for (std::size_t i = 0; i < count; ++i) samples[i].own(given[i]);  // also if the call failed
  const Outcome outcome = internal::outcome_of(asked.ended(status));
  for (std::size_t i = 0; i < count; ++i) samples[i].describe_tensors();
  return outcome;
}

inline Outcome Subscriber::receive_into(void* rows, const Layout& layout, std::size_t& count,
                                        std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  const tb_layout given = internal::described(layout);
  internal::Asked asked(give_up);
  return internal::outcome_of(asked.ended(
      tb_subscriber_receive_into(get(), rows, &given, timeout.count(), asked.get(), &count)));
}

inline std::vector<Sample> Subscriber::receive_many(std::size_t most,
                                                    std::chrono::nanoseconds timeout,
                                                    const GiveUp& give_up) {
  std::vector<Sample> samples(most);
  std::size_t count = 0;
  const Outcome outcome = internal::despite_signals(
      timeout, give_up, [&](auto left) { return receive_many(samples, count, left, give_up); });
  (void)received(outcome);
  samples.resize(count);
  return samples;
}

inline std::optional<Sample> Subscriber::try_receive() {
  std::optional<Sample> sample(std::in_place);
  if (!received(try_receive(*sample))) sample.reset();
  return sample;
}

inline int Subscriber::event_descriptor() {
  int descriptor = -1;
  internal::require_done(tb_subscriber_event_descriptor(get(), &descriptor));
  return descriptor;
}

inline Outcome Subscriber::wait_for_publishers(std::uint32_t count,
                                               std::chrono::nanoseconds timeout,
                                               const GiveUp& give_up) {
  return internal::outcome_of(internal::in_slices(timeout, give_up, [&](std::int64_t timeout_ns) {
    return tb_subscriber_wait_for_publishers(get(), count, timeout_ns);
  }));
}

inline std::string Subscriber::last_refusal() const {
  std::string text(std::size_t{1} << 16, '\0');
  internal::require_done(tb_subscriber_last_refusal(get(), text.data(), text.size()));
  text.resize(text.find('\0'));
  return text;
}

inline SubscriberStats Subscriber::stats() const {
  tb_subscriber_stats stats = TB_SUBSCRIBER_STATS_INIT;
  internal::require_done(tb_subscriber_get_stats(get(), &stats));
  auto made = internal::from_c<SubscriberStats>(stats);
  if (made.refused > 0) made.last_refusal = last_refusal();
  return made;
}

}  // namespace tensorbus::inline v0
