#pragma once

#include <tensorbus/c/publisher.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/loan.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

// Sends samples to every subscriber of a topic, in any process of the domain. Movable, not
// copyable. Thread-safe. A call that reaches a limit throws Error(kOutOfMemory), which names the
// limit, and has no effect. Calls on a moved-from publisher throw Error(kClosed).
//
//   tensorbus::Publisher publisher("camera/image");
//   tensorbus::Loan frame = publisher.loan<std::uint8_t>({1080, 1920, 3});
//   capture(frame.as<std::uint8_t>());
//   publisher.publish(std::move(frame));
class Publisher {
 public:
  // Throws Error(kInvalidArgument) for an empty topic.
  explicit Publisher(const std::string& topic, const PublisherOptions& options = {},
                     const Participant& participant = Participant::shared());

  const std::string& topic() const {
    get();
    return topic_;
  }
  const MessageType& type() const {
    get();
    return type_;
  }

  // Loans host or GPU memory for one tensor, so that a program can compute a result in place. The
  // bytes are not cleared. To publish an existing tensor, pass a view: publish() copies it faster
  // than a program copies it into a loan. Throws Error(kOutOfMemory), which names the limit,
  // Error(kClosed) after close(), and Error(kUnsupported) with the reason if GPU memory is not
  // available.
  Loan loan(const Layout& layout, Device device = Device::host());
  template <typename T>
  Loan loan(Dims shape, Device device = Device::host()) {
    return loan(Layout::contiguous(dtype_of<T>(), std::move(shape)), device);
  }

  // Publishes a loan without a copy. Unless the outcome is kDone, the caller still has the loan.
  // `stream`: see TensorView. Throws Error(kClosed) for a loan that was published before,
  // Error(kInvalidArgument) for a loan of another participant, or if only one of the two publishers
  // (this one and the one of the loan) is `shared`.
  Published publish(Loan&& loan, void* stream = nullptr);
  // Publishes tensors and fields. Tensors in a loan are sent by reference; all others are copied
  // once. Unless the outcome is kDone, no subscriber gets the message. Throws
  // Error(kInvalidArgument) for invalid tensors, and for those of a loan that was published before.
  Published publish(const Message& message) { return publish_all(message.tensors, message); }
  Published publish(const TensorView& tensor) { return publish_all({&tensor, 1}, {}); }
  // Publishes fields given as a value, in which TensorIndex{i} stands for tensors[i].
  //   publisher.publish(Value::Map{{"image", TensorIndex{0}}, {"id", 7}}, {loan.view()});
  Published publish(const Value& fields, const std::vector<TensorView>& tensors);
  // Like publish(message), with a timeout for this call. Only a reliable publisher uses it.
  Published publish(const Message& message, std::chrono::nanoseconds timeout,
                    const GiveUp& give_up = {});

  // Publishes each row of a tensor in host memory as one message, like consecutive calls of
  // publish(): depth, reliability and history apply to each message. The rows are along the first
  // dimension; each is copied once. This is faster for many small messages, because it takes its
  // locks, and wakes the subscribers, once for many. Unless the outcome is kDone, only the first
  // `count` rows were published. An error after the first row is the outcome kInterrupted; another
  // call, for the other rows, throws it. Throws Error(kInvalidArgument) for a tensor without
  // dimensions or on a GPU.
  //   publisher.publish_many(tensorbus::TensorView::of(poses.data(), {1000, 7}));  // 1000 messages
  PublishedMany publish_many(const TensorView& rows);
  PublishedMany publish_many(const TensorView& rows, std::chrono::nanoseconds timeout,
                             const GiveUp& give_up = {});

  // Waits for `count` subscribers. Returns kDone, kTimedOut, kInterrupted or kClosed.
  Outcome wait_for_subscribers(std::uint32_t count, std::chrono::nanoseconds timeout,
                               const GiveUp& give_up = {});
  std::uint32_t subscribers() const { return stats().subscribers; }
  PublisherStats stats() const;
  // Closes the publisher. Subscribers still get the samples in their queues. A second call does
  // nothing.
  void close() { tb_publisher_close(get()); }

 private:
  tb_publisher* get() const { return internal::living(publisher_, "publisher"); }
  Published publish_all(std::span<const TensorView> tensors, const Message& rest);
  static Published result_of(tb_status status, const tb_published& published) {
    return {internal::outcome_of(status), published.sequence, published.subscribers};
  }

  internal::Owned<tb_publisher, tb_publisher_destroy> publisher_;
  std::string topic_;
  MessageType type_;
  std::chrono::nanoseconds timeout_{};
};

inline Publisher::Publisher(const std::string& topic, const PublisherOptions& options,
                            const Participant& participant)
    : topic_(topic), type_(options.type), timeout_(options.timeout) {
  tb_publisher_options given = TB_PUBLISHER_OPTIONS_INIT;
  given.depth = options.depth;
  given.history = options.history;
  given.reliable = options.reliable ? 1 : 0;
  given.timeout_ns = options.timeout.count();
  if (options.lag_timeout != std::chrono::nanoseconds::max())
    given.lag_timeout_ns = options.lag_timeout.count() > 0 ? options.lag_timeout.count() : -1;
  given.shared = options.shared ? 1 : 0;
  given.isolated = options.isolated ? 1 : 0;
  given.type = internal::c_text_or_null(options.type.definition(), "the type");
  given.node = internal::c_text_or_null(options.node, "the node");
  publisher_ = internal::created<decltype(publisher_)>([&](tb_publisher** made) {
    return tb_publisher_create(internal::get(participant), internal::c_text(topic, "the topic"),
                               &given, made);
  });
}

inline Loan Publisher::loan(const Layout& layout, Device device) {
  const tb_layout given = internal::described(layout);
  return Loan(internal::created<Loan::Owner>([&](tb_loan** loan) {
                return tb_publisher_loan(get(), &given, internal::number_of(device), loan);
              }),
              layout, device);
}

inline Published Publisher::publish(Loan&& loan, void* stream) {
  tb_loan* given = loan.alive().loan_.get();
  tb_published published = TB_PUBLISHED_INIT;
  const tb_status status = tb_publisher_publish_loan(get(), &given, stream, &published);
  if (given == nullptr) (void)loan.loan_.release();
  return result_of(status, published);
}

inline Published Publisher::publish_all(std::span<const TensorView> tensors, const Message& rest) {
  tb_published published = TB_PUBLISHED_INIT;
  tb_publisher* const publisher = get();
  internal::Outbound message(tensors, rest);
  return result_of(tb_publisher_publish(publisher, message.hand_over(), &published), published);
}

inline Published Publisher::publish(const Value& fields, const std::vector<TensorView>& tensors) {
  const std::vector<std::byte> bytes = fields.encode();
  Message rest;
  rest.fields = bytes;
  return publish_all(tensors, rest);
}

inline Published Publisher::publish(const Message& message, std::chrono::nanoseconds timeout,
                                    const GiveUp& give_up) {
  tb_published published = TB_PUBLISHED_INIT;
  tb_publisher* const publisher = get();
  internal::Asked asked(give_up);
  internal::Outbound outbound(message);
  return result_of(asked.ended(tb_publisher_publish_within(
                       publisher, outbound.hand_over(), timeout.count(), asked.get(), &published)),
                   published);
}

inline PublishedMany Publisher::publish_many(const TensorView& rows,
                                             std::chrono::nanoseconds timeout,
                                             const GiveUp& give_up) {
  tb_published_many published = TB_PUBLISHED_MANY_INIT;
  internal::Asked asked(give_up);
  internal::Outbound outbound({&rows, 1}, {});
  const tb_status status = asked.ended(tb_publisher_publish_many(
      get(), outbound.hand_over()->tensors, timeout.count(), asked.get(), &published));
  return {internal::outcome_of(status), published.count, published.sequence, published.subscribers};
}

inline PublishedMany Publisher::publish_many(const TensorView& rows) {
  return publish_many(rows, timeout_);
}

inline Outcome Publisher::wait_for_subscribers(std::uint32_t count,
                                               std::chrono::nanoseconds timeout,
                                               const GiveUp& give_up) {
  return internal::outcome_of(internal::in_slices(timeout, give_up, [&](std::int64_t timeout_ns) {
    return tb_publisher_wait_for_subscribers(get(), count, timeout_ns);
  }));
}

inline PublisherStats Publisher::stats() const {
  tb_publisher_stats stats = TB_PUBLISHER_STATS_INIT;
  internal::require_done(tb_publisher_get_stats(get(), &stats));
  return internal::from_c<PublisherStats>(stats);
}

}  // namespace tensorbus::inline v0
