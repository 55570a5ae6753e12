#pragma once

#include <tensorbus/c/queue.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/stats.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Items from any process of the domain to any other, each to exactly one. It lives in the
// participant that makes it; when that is gone, everybody gets kClosed. Tensors go by reference,
// straight from whoever put them: neither that process nor the queue's is needed once an item was
// got. Thread-safe. Moves, does not copy. Of one that was moved from every call throws
// Error(kClosed).
//
//   tensorbus::Queue queue({.maxsize = 8});
//   queue.put({.tensors = {TensorView::of(data, {n})}});
//   tensorbus::Queue same = tensorbus::Queue::open(queue.address());  // in another process
//   tensorbus::Sample item;
//   if (same.get(item, std::chrono::seconds(1)) == tensorbus::Outcome::kDone) use(item.tensor());
class Queue {
 public:
  using Timeout = std::chrono::nanoseconds;
  static constexpr Timeout kForever = Timeout::max();

  explicit Queue(const QueueOptions& options = {},
                 const Participant& participant = Participant::shared());
  // By its address, or by its name, which may come later than we do. Throws Error(kClosed) when its
  // host is gone, Error(kInvalidArgument) for an address that makes no sense, Error(kTimeout).
  static Queue open(const std::string& address_or_name, Timeout timeout = kForever,
                    const GiveUp& give_up = {},
                    const Participant& participant = Participant::shared());
  // By its address, and asks nobody: its host may be stopped, or gone, which the first call that
  // needs it finds out. `options` are what the caller knows of its maker's. `shared` must be the
  // same, or tensors are refused with Error(kProtocol); the others are only handed back by
  // options(). Throws Error(kInvalidArgument) for a text that is no address.
  static Queue at(const std::string& address, const QueueOptions& options = {},
                  const Participant& participant = Participant::shared());

  // One line of text, for any means to carry.
  std::string address() const { return tb_queue_address(queue()); }
  QueueOptions options() const;
  // Does it live here?
  bool made_here() const { return tb_queue_made_here(queue()) != 0; }

  // kDone, kTimedOut (there was no room; nothing was put), kInterrupted (the same) or kClosed.
  // Throws Error(kOutOfMemory), and Error(kTimeout) when the host does not say whether the item is
  // in it.
  Outcome put(const Message& item, Timeout timeout = kForever, const GiveUp& give_up = {});
  // kDone, kTimedOut, kInterrupted or kClosed.
  Outcome get(Sample& item, Timeout timeout = kForever, const GiveUp& give_up = {});

  // The same for an event loop: a request that is under way until its descriptor is readable. When
  // it goes before that it is given up, and an item that was on its way goes back to the queue.
  class Pending {
   public:
    int descriptor() const noexcept { return tb_pending_descriptor(pending_.get()); }
    bool is_get() const noexcept { return is_get_; }
    // What put(), get() or join() would have returned, or thrown; once. `item` is for a get.
    // kTimedOut: not yet. Throws Error(kClosed) once it was cancelled.
    Outcome take(Sample& item);
    // As if it went: nobody waits for it any more.
    void cancel() noexcept { pending_.reset(); }

   private:
    friend class Queue;
    using Owner = internal::Owned<tb_pending, tb_pending_destroy>;
    Pending(Owner pending, bool is_get) : pending_(std::move(pending)), is_get_(is_get) {}

    Owner pending_;
    bool is_get_;
  };
  Pending start_put(const Message& item);
  Pending start_get();
  Pending start_join();

  // These three the host answers at once. Error(kTimeout): it did not in five seconds, being
  // stopped or very busy, or we gave up.

  // Of the oldest item that this process got. Throws Error(kInvalidArgument) if there were fewer
  // items, Error(kClosed).
  void task_done(const GiveUp& give_up = {});
  // Until every item that was put was done. kDone, kTimedOut, kInterrupted or kClosed.
  Outcome join(Timeout timeout = kForever, const GiveUp& give_up = {});
  // Throws Error(kClosed).
  QueueStats stats(const GiveUp& give_up = {}) const;
  // For everybody: items that wait are dropped.
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
          .name = options.name};
}

inline Outcome Queue::put(const Message& item, Timeout timeout, const GiveUp& give_up) {
  tb_queue* const to = queue();
  internal::Asked asked(give_up);
  internal::Outbound outbound(item);
  return internal::outcome_of(
      asked.ended(tb_queue_put(to, outbound.hand_over(), timeout.count(), asked.get())));
}

inline Outcome Queue::get(Sample& item, Timeout timeout, const GiveUp& give_up) {
  internal::Asked asked(give_up);
  return internal::receive_into(item, [&](tb_sample** given) {
    return asked.ended(tb_queue_get(queue(), timeout.count(), asked.get(), given));
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
  return {stats.items, stats.unfinished, stats.lost};
}

inline void Queue::close(const GiveUp& give_up) {
  internal::Asked asked(give_up);
  internal::require_done(asked.ended(tb_queue_close(queue(), asked.get())));
}

}  // namespace tensorbus::inline v0
