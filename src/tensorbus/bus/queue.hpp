#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

namespace bus {
struct QueueAddress;
}
namespace link {
enum class QueueVerb : std::uint32_t;
}

// A program's end of a queue, for the C interface and the Python extension. The object that made
// the queue closes it when it is destroyed; bus::QueueClient talks to the queue's host.
// include/tensorbus/queue.hpp describes the calls and their errors. Thread-safe.
class TENSORBUS_API Queue {
 public:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  // `origin`: of a service that stands for one of another machine; written into the marker.
  explicit Queue(const QueueOptions& options = {},
                 const Participant& participant = Participant::shared(),
                 const link::MirrorOrigin& origin = {});
  // Opens a queue by its address, or by its name; a queue of this name may come later.
  static Queue open(const std::string& address_or_name,
                    const platform::StopCondition& stop = kForever,
                    const Participant& participant = Participant::shared());
  // Returns the queue of an address without a request to its host.
  static Queue at(const std::string& address, const QueueOptions& options = {},
                  const Participant& participant = Participant::shared());
  // Returns addresses by which open() finds the queues of this name. Hosts may have died meanwhile.
  static std::vector<std::string> addresses_of(
      const std::string& name, const Participant& participant = Participant::shared());
  Queue(Queue&&) noexcept;
  Queue& operator=(Queue&&) noexcept;
  ~Queue();  // close(), if this object made the queue

  const std::string& address() const;
  const QueueOptions& options() const;
  bool made_here() const;
  // What this object's items may be used for, instead of kShared if the queue is shared and kRead
  // if not. Before the first get.
  void receive_with(Access access);

  Outcome put(const Message& item, const platform::StopCondition& stop = kForever);
  Outcome get(Sample& item, const platform::StopCondition& stop = kForever);
  // Puts an item if that needs no waiting, and no question to the host. Returns false if it did
  // not.
  bool put_now(const Message& item);

  class Pending;
  // get() that also ends, with kClosed, when a put or a call is answered.
  Outcome get_while(Sample& item, const Pending& unanswered,
                    const platform::StopCondition& stop = kForever);

  // Puts items in their order. Returns kDone; or what kept the item of index `count` out, which is
  // how many are in the queue. Throws as put(), with `count` set.
  Outcome put_many(std::span<const Message> items, std::size_t& count,
                   const platform::StopCondition& stop = kForever);
  // Waits for one item as get(), and appends up to `most - 1` that wait behind it.
  Outcome get_many(std::vector<Sample>& items, std::size_t most,
                   const platform::StopCondition& stop = kForever);

  // A request under way: its descriptor is readable when there is an answer. Destroying it gives it
  // up, and an item that was on its way goes back to the queue.
  class TENSORBUS_API Pending {
   public:
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();
    // Made by the first call. Throws Error(kOutOfMemory) if there is no descriptor left.
    int descriptor() const;
    bool is_get() const noexcept;
    // Returns or throws, once, what put(), get() or join() would have. `item` is for a get. After
    // kTimedOut without answered() the descriptor will be readable again.
    Outcome take(Sample& item);
    // Waits until take() may succeed, or that of `other`, and serves the bus meanwhile in this
    // thread. Returns false if that cannot be done now: the descriptors tell.
    bool wait(const platform::StopCondition& stop, Pending* other = nullptr);
    // Returns true if the answer of a put or a call has come, or take() had that of a get.
    bool answered() const noexcept;
    void cancel() noexcept;
    // Asks the host to give a put or a call up, and goes on waiting for its answer.
    void request_cancel();
    // Returns the numbers in the answer to a call, after take() (queue_messages.hpp).
    std::array<std::uint64_t, 4> values() const noexcept;
    // Of a get that holds: take() has read the item, and this accepts it; cancel() refuses it.
    // After kTimedOut the descriptor will be readable again. The item's number is 0 without
    // `redeliver`.
    Outcome accept();
    // Refuses it for good: nobody can read the item, which counts as lost.
    void spoil();
    std::uint64_t number() const noexcept;

   private:
    friend class Queue;
    struct Impl;
    explicit Pending(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  // `waits`: for room, or for an item. `holds`: task_done() does not know of the item.
  Pending start_put(const Message& item, bool waits = true);
  Pending start_get(bool holds = false, bool waits = true);
  Pending start_join();
  // For bridges: any call, with its number (queue_messages.hpp). call() waits for an answer that
  // the host owes at once.
  Pending start_call(link::QueueVerb verb, std::uint64_t number = 0);
  void call(link::QueueVerb verb, std::uint64_t number, const GiveUp& give_up = {});

  Outcome join(const platform::StopCondition& stop = kForever);
  // After shutdown(): how many items wait, and which processes that live have asked for items.
  struct Remaining {
    std::uint64_t items = 0;
    std::uint64_t others = 0;  // so many other ones
    bool asked_here = false;
  };
  Remaining shutdown(bool immediate = false, const GiveUp& give_up = {});
  Outcome drain(const platform::StopCondition& stop = kForever);
  // The host answers these at once: Error(kTimeout) means no answer within five seconds.
  void task_done(const GiveUp& give_up = {});
  QueueStats stats(const GiveUp& give_up = {}) const;
  void close(const GiveUp& give_up = {});

 private:
  struct State;
  explicit Queue(bus::ForkSafe<State> state);
  // Returns a queue that another object has made.
  static Queue elsewhere(const Participant& participant, QueueOptions options,
                         const bus::QueueAddress& address);
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
