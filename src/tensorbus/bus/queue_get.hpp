#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "tensorbus/bus/awaited.hpp"
#include "tensorbus/bus/queue_request.hpp"
#include "tensorbus/bus/reading.hpp"
#include "tensorbus/bus/sample.hpp"

namespace tensorbus::bus {

// A get that is under way: the host's answer is awaited, then the item is read by whoever asked. An
// item that came and is not taken goes back to where it was. For one thread.
class QueueGet {
 public:
  // `waits`: until there is an item.
  QueueGet(ParticipantCore& core, const QueueAddress& address, Access access, bool waits);

  // kDone with an item; kTimedOut: not yet, or there is none; kInterrupted. Throws what came
  // instead. When memory was short for it, the item has gone back.
  Outcome take(Sample& item, std::chrono::nanoseconds timeout, const GiveUp& give_up);
  // Has the host answered?
  bool has_come() const noexcept { return awaited_->done(); }
  // Called once when take() is worth another try, at once if it is now.
  void on_ready(std::function<void()> tell);
  // Nobody waits any more.
  void cancel();

 private:
  struct Item {
    HeldRef held;
    std::uint64_t number = 0;  // the host's
  };
  using Answer = std::shared_ptr<Awaited<std::optional<Item>>>;  // empty: there was none

  static std::uint32_t start(Surroundings& surroundings, const std::shared_ptr<Exchange>& host,
                             const QueueAddress& address, memory::Grant grant, bool waits,
                             const Answer& answer);
  Outcome wait_for_item(std::chrono::nanoseconds timeout, const GiveUp& give_up);
  void put_back(Item item);

  ParticipantCore* core_;
  QueueAddress address_;
  Access access_;
  Answer awaited_;
  QueueRequestRef asked_;
  std::optional<Reading> reading_;  // since an item came
  std::uint64_t number_ = 0;        // its
};

}  // namespace tensorbus::bus
