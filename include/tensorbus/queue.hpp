#pragma once

#include <tensorbus/c/queue.h>

#include <chrono>
#include <iterator>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/internal/received.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Passes items between all processes of a domain, each item to exactly one process. The participant
// that makes the queue holds it; when this participant ends, all calls return kClosed. Tensors are
// passed by reference, directly from the process that put them: after a get, neither that process
// nor the queue's process is needed. Thread-safe. Movable, not copyable. Calls on a moved-from
// queue throw Error(kClosed).
//
//   tensorbus::Queue queue({.maxsize = 8});
//   queue.put({.tensors = {TensorView::of(data, {n})}});
//   tensorbus::Queue same = tensorbus::Queue::open(queue.address());  // in another process
//   for (const tensorbus::Sample& item : same) use(item.tensor());  // until shutdown() or close()
class Queue {
 public:
  using Timeout = std::chrono::nanoseconds;
  static constexpr Timeout kForever = Timeout::max();

  // Throws Error(kInvalidArgument) if a queue of this name exists; the text names its process.
  // Throws Error(kUnsupported) for the option `pin` if memory cannot be pinned here.
  explicit Queue(const QueueOptions& options = {},
                 const Participant& participant = Participant::shared());
  // Opens a queue by its address or its name. Waits until a queue has this name. Throws
  // Error(kTimeout); for an address also Error(kClosed) if its process is gone, and
  // Error(kInvalidArgument) if the address is invalid.
  static Queue open(const std::string& address_or_name, Timeout timeout = kForever,
                    const GiveUp& give_up = {},
                    const Participant& participant = Participant::shared());
  // Makes a handle of the queue with this address. It sends no request: if the queue's process is
  // stopped or gone, the first call that needs the process reports it. `options` are the options of
  // the queue, as far as known. `shared` must be the same, or tensors are refused with
  // Error(kProtocol); the other options are only returned by options(). Throws
  // Error(kInvalidArgument) for an invalid address.
  static Queue at(const std::string& address, const QueueOptions& options = {},
                  const Participant& participant = Participant::shared());

  // Pins the items that this object gets later, like QueueOptions::pin: for a queue from open(). No
  // other thread may get an item meanwhile. Throws Error(kUnsupported) if memory cannot be pinned
  // here.
  void pin() { internal::require_done(tb_queue_pin(queue())); }

  // One line of text, which any channel can carry.
  std::string address() const { return tb_queue_address(queue()); }
  QueueOptions options() const;
  // Returns true if this object made the queue.
  bool made_here() const { return tb_queue_made_here(queue()) != 0; }

  // Puts an item. Returns kDone, kTimedOut or kInterrupted (there was no room; nothing was put),
  // kShutDown or kClosed. With a timeout other than kForever it also waits until enough memory is
  // released. Throws Error(kOutOfMemory), Error(kInvalidArgument) for an item larger than
  // max_bytes, and Error(kTimeout) if the queue's process did not reply: the item may be in the
  // queue.
  Outcome put(const Message& item, Timeout timeout = kForever, const GiveUp& give_up = {});
  // Puts an item without tensors if that needs no waiting and no request to another process.
  // Returns false if it was not put: use start_put() or put(). Throws as put() does.
  bool put_now(const Message& item);
  // Gets an item. Returns kDone, kTimedOut, kInterrupted, kShutDown or kClosed.
  Outcome get(Sample& item, Timeout timeout = kForever, const GiveUp& give_up = {});

  // The next items, as a single-pass range. A step of the loop releases its item, and waits for the
  // next one. The range ends when the queue is shut down and empty, when it is closed, after
  // `timeout` without an item, and if `give_up` returns true. Signals do not end it. `auto` instead
  // of `const Sample&` takes the item out of the range, to keep it.
  //
  //   for (auto job : jobs.items(std::chrono::seconds(10))) work_on(std::move(job));
  internal::Received<Sample> items(Timeout timeout = kForever, GiveUp give_up = {});
  // items() without a timeout: for (const tensorbus::Sample& job : jobs).
  auto begin() { return items().begin(); }
  std::default_sentinel_t end() const noexcept { return {}; }

  // A request for event loops. It is finished when its descriptor is readable. Destroying an
  // unfinished request cancels it; an item that is on its way then goes back into the queue.
  class Pending {
   public:
    int descriptor() const noexcept { return tb_pending_descriptor(pending_.get()); }
    bool is_get() const noexcept { return is_get_; }
    // Returns or throws the result of put(), get() or join(), once; a get stores its item in
    // `item`. Returns kTimedOut while the request is not finished. Throws Error(kClosed) after
    // cancel().
    Outcome take(Sample& item);
    // Cancels the request, as its destructor does.
    void cancel() noexcept { pending_.reset(); }

   private:
    friend class Queue;
    using Owner = internal::Owned<tb_pending, tb_pending_destroy>;
    Pending(Owner pending, bool is_get) : pending_(std::move(pending)), is_get_(is_get) {}

    Owner pending_;
    bool is_get_;
  };
  // Like get(), but also returns kClosed when the request `unanswered` (a put or a join) is
  // finished.
  Outcome get_while(Sample& item, const Pending& unanswered, Timeout timeout = kForever,
                    const GiveUp& give_up = {});
  Pending start_put(const Message& item);
  Pending start_get();
  Pending start_join();

  // task_done(), stats(), shutdown() and close() throw Error(kTimeout) if the queue's process did
  // not reply within five seconds, because it is stopped or very busy, or if `give_up` returned
  // true.

  // Marks the oldest item that this process got as done. Throws Error(kInvalidArgument) if there is
  // none, or Error(kClosed).
  void task_done(const GiveUp& give_up = {});
  // Waits until all items are done. Returns kDone, kTimedOut, kInterrupted or kClosed.
  Outcome join(Timeout timeout = kForever, const GiveUp& give_up = {});
  // Throws Error(kClosed).
  QueueStats stats(const GiveUp& give_up = {}) const;
  // Shuts the queue down for all processes: from now on put() returns kShutDown, and so does get()
  // when no item is left. `immediate`: waiting items are dropped and count as done. Throws
  // Error(kClosed) or Error(kTimeout).
  //
  //   jobs.shutdown();
  //   jobs.drain(std::chrono::seconds(10));  // the consumers get what waits
  void shutdown(bool immediate = false, const GiveUp& give_up = {});
  // Waits until the queue has no waiting item, so that closing it drops none. With `redeliver`,
  // items that other processes have got must also be done. Returns kDone, kTimedOut, kInterrupted
  // or kClosed.
  Outcome drain(Timeout timeout = kForever, const GiveUp& give_up = {});
  // Closes the queue for all processes. Waiting items are dropped: see drain().
  void close(const GiveUp& give_up = {});

 private:
  using Owner = internal::Owned<tb_queue, tb_queue_destroy>;
  explicit Queue(Owner queue) : queue_(std::move(queue)) {}
  tb_queue* queue() const { return internal::living(queue_, "queue"); }

  Owner queue_;
};

namespace internal {

inline tb_queue_options described(const QueueOptions& options) {
  tb_queue_options given = TB_QUEUE_OPTIONS_INIT;
  given.maxsize = options.maxsize;
  given.redeliver = options.redeliver ? 1 : 0;
  given.shared = options.shared ? 1 : 0;
  given.name = c_text_or_null(options.name, "the name");
  given.max_bytes = options.max_bytes;
  given.pin = options.pin ? 1 : 0;
  return given;
}

}  // namespace internal

inline Queue::Queue(const QueueOptions& options, const Participant& participant) {
  const tb_queue_options given = internal::described(options);
  queue_ = internal::created<Owner>(
      [&](tb_queue** queue) { return tb_queue_create(internal::get(participant), &given, queue); });
}

inline Queue Queue::open(const std::string& address_or_name, Timeout timeout, const GiveUp& give_up,
                         const Participant& participant) {
  internal::Asked asked(give_up);
  return Queue(internal::created<Owner>([&](tb_queue** queue) {
    return asked.ended(tb_queue_open(internal::get(participant),
                                     internal::c_text(address_or_name, "the name"), timeout.count(),
                                     asked.get(), queue));
  }));
}

inline Queue Queue::at(const std::string& address, const QueueOptions& options,
                       const Participant& participant) {
  const tb_queue_options given = internal::described(options);
  return Queue(internal::created<Owner>([&](tb_queue** queue) {
    return tb_queue_at(internal::get(participant), internal::c_text(address, "the address"), &given,
                       queue);
  }));
}

inline QueueOptions Queue::options() const {
  tb_queue_options options = TB_QUEUE_OPTIONS_INIT;
  internal::require_done(tb_queue_get_options(queue(), &options));
  return {.maxsize = options.maxsize,
          .redeliver = options.redeliver != 0,
          .shared = options.shared != 0,
          .name = options.name,
          .max_bytes = options.max_bytes,
          .pin = options.pin != 0};
}

inline Outcome Queue::put(const Message& item, Timeout timeout, const GiveUp& give_up) {
  tb_queue* const to = queue();
  internal::Asked asked(give_up);
  internal::Outbound outbound(item);
  return internal::outcome_of(
      asked.ended(tb_queue_put(to, outbound.hand_over(), timeout.count(), asked.get())));
}

inline bool Queue::put_now(const Message& item) {
  if (!item.tensors.empty()) return false;
  internal::Outbound outbound(item);
  return internal::outcome_of(tb_queue_put_now(queue(), outbound.hand_over())) == Outcome::kDone;
}

inline Outcome Queue::get(Sample& item, Timeout timeout, const GiveUp& give_up) {
  internal::Asked asked(give_up);
  return internal::receive_into(item, [&](tb_sample** given) {
    return asked.ended(tb_queue_get(queue(), timeout.count(), asked.get(), given));
  });
}

inline internal::Received<Sample> Queue::items(Timeout timeout, GiveUp give_up) {
  return internal::Received<Sample>([this, timeout, give_up = std::move(give_up)](Sample& item) {
    return internal::despite_signals(timeout, give_up,
                                     [&](Timeout left) { return get(item, left, give_up); });
  });
}

inline Outcome Queue::get_while(Sample& item, const Pending& unanswered, Timeout timeout,
                                const GiveUp& give_up) {
  internal::Asked asked(give_up);
  return internal::receive_into(item, [&](tb_sample** given) {
    return asked.ended(tb_queue_get_while(queue(), unanswered.pending_.get(), timeout.count(),
                                          asked.get(), given));
  });
}

inline Queue::Pending Queue::start_put(const Message& item) {
  tb_queue* const to = queue();
  internal::Outbound outbound(item);
  return {internal::created<Pending::Owner>([&](tb_pending** pending) {
            return tb_queue_start_put(to, outbound.hand_over(), pending);
          }),
          false};
}
inline Queue::Pending Queue::start_get() {
  return {internal::created<Pending::Owner>(
              [&](tb_pending** pending) { return tb_queue_start_get(queue(), pending); }),
          true};
}
inline Queue::Pending Queue::start_join() {
  return {internal::created<Pending::Owner>(
              [&](tb_pending** pending) { return tb_queue_start_join(queue(), pending); }),
          false};
}

inline Outcome Queue::Pending::take(Sample& item) {
  if (!pending_) throw Error(Code::kClosed, "this request was cancelled or moved from");
  return internal::receive_into(
      item, [&](tb_sample** given) { return tb_pending_take(pending_.get(), given); });
}

inline void Queue::task_done(const GiveUp& give_up) {
  internal::Asked asked(give_up);
  internal::require_done(asked.ended(tb_queue_task_done(queue(), asked.get())));
}

inline Outcome Queue::join(Timeout timeout, const GiveUp& give_up) {
  internal::Asked asked(give_up);
  return internal::outcome_of(asked.ended(tb_queue_join(queue(), timeout.count(), asked.get())));
}

inline QueueStats Queue::stats(const GiveUp& give_up) const {
  internal::Asked asked(give_up);
  tb_queue_stats stats = TB_QUEUE_STATS_INIT;
  internal::require_done(asked.ended(tb_queue_get_stats(queue(), asked.get(), &stats)));
  return internal::from_c<QueueStats>(stats);
}

inline void Queue::shutdown(bool immediate, const GiveUp& give_up) {
  internal::Asked asked(give_up);
  internal::require_done(asked.ended(tb_queue_shutdown(queue(), immediate ? 1 : 0, asked.get())));
}

inline Outcome Queue::drain(Timeout timeout, const GiveUp& give_up) {
  internal::Asked asked(give_up);
  return internal::outcome_of(asked.ended(tb_queue_drain(queue(), timeout.count(), asked.get())));
}

inline void Queue::close(const GiveUp& give_up) {
  internal::Asked asked(give_up);
  internal::require_done(asked.ended(tb_queue_close(queue(), asked.get())));
}

}  // namespace tensorbus::inline v0
