#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

namespace bus {
struct QueueAddress;
}

// A program's end of a queue: what the C interface and the Python extension hold. The one that
// made the queue closes it when it goes; bus::QueueClient talks to the host of the queue. What the
// calls do, and throw, is said in include/tensorbus/queue.hpp. Thread-safe.
class TENSORBUS_API Queue {
 public:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  explicit Queue(const QueueOptions& options = {},
                 const Participant& participant = Participant::shared());
  // By its address, or by its name, which may come later.
  static Queue open(const std::string& address_or_name,
                    const platform::StopCondition& stop = kForever,
                    const Participant& participant = Participant::shared());
  // By its address, without a request to its host.
  static Queue at(const std::string& address, const QueueOptions& options = {},
                  const Participant& participant = Participant::shared());
  Queue(Queue&&) noexcept;
  Queue& operator=(Queue&&) noexcept;
  ~Queue();  // of the one that made it: close()

  const std::string& address() const;
  const QueueOptions& options() const;
  bool made_here() const;

  Outcome put(const Message& item, const platform::StopCondition& stop = kForever);
  Outcome get(Sample& item, const platform::StopCondition& stop = kForever);

  // A request that is under way until its descriptor is readable. Destroying it gives it up: an
  // item that was on its way goes back to the queue.
  class TENSORBUS_API Pending {
   public:
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();
    int descriptor() const noexcept;
    bool is_get() const noexcept;
    // What put(), get() or join() would have returned, or thrown; once. `item` is for a get. With
    // kTimedOut the descriptor will be readable again.
    Outcome take(Sample& item);
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

  Outcome join(const platform::StopCondition& stop = kForever);
  // The host answers these at once. Throws Error(kTimeout) after five seconds without an answer.
  void task_done(const GiveUp& give_up = {});
  QueueStats stats(const GiveUp& give_up = {}) const;
  void close(const GiveUp& give_up = {});

 private:
  struct State;
  explicit Queue(bus::ForkSafe<State> state);
  // One that somebody else has made.
  static Queue elsewhere(const Participant& participant, QueueOptions options,
                         const bus::QueueAddress& address);
  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
