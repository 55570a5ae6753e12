#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Items from any process of the domain to any other, each to exactly one. It lives in the
// participant that makes it; when that is gone, everybody gets kClosed. Tensors go by reference,
// straight from whoever put them: neither that process nor the queue's is needed once an item was
// got. Thread-safe. Moves, does not copy.
//
//   tensorbus::Queue queue({.maxsize = 8});
//   queue.put({.tensors = {TensorView::of(data, {n})}});
//   tensorbus::Queue same = tensorbus::Queue::open(queue.address());  // in another process
//   tensorbus::Sample item;
//   if (same.get(item, std::chrono::seconds(1)) == tensorbus::Outcome::kDone) use(item.tensor());
class TENSORBUS_API Queue {
  struct Impl;

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
  Queue(Queue&&) noexcept;
  Queue& operator=(Queue&&) noexcept;
  ~Queue();  // of the one that made it: close()

  // One line of text, for any means to carry.
  const std::string& address() const;
  const QueueOptions& options() const;
  // Does it live here?
  bool made_here() const;

  // kDone, kTimedOut (there was no room; nothing was put), kInterrupted (the same) or kClosed.
  // Throws Error(kOutOfMemory), and Error(kTimeout) when the host does not say whether the item is
  // in it.
  Outcome put(const Message& item, Timeout timeout = kForever, const GiveUp& give_up = {});
  // kDone, kTimedOut, kInterrupted or kClosed. The calling thread is the one that maps what lies on
  // a GPU. Throws Error(kOutOfMemory) when there is no room for that: the item is back in the
  // queue.
  Outcome get(Sample& item, Timeout timeout = kForever, const GiveUp& give_up = {});

  // The same for an event loop: a request that is under way until its descriptor is readable. When
  // it goes before that it is given up, and an item that was on its way goes back to the queue.
  class TENSORBUS_API Pending {
   public:
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();
    int descriptor() const noexcept;
    bool is_get() const noexcept;
    // What put(), get() or join() would have returned, or thrown; once. `item` is for a get, and is
    // read here. kTimedOut: not yet; the descriptor will be readable again.
    Outcome take(Sample& item);
    // As if it went: nobody waits for it any more.
    void cancel() noexcept;

   private:
    friend class Queue;
    struct Impl;
    explicit Pending(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
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
  explicit Queue(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbus
