#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/queue_client/item_pin.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/queue_client/under_way.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscribe/sample_read.hpp"

namespace tensorbus::bus {

// A get() that is under way. Waits for the server's offer, reads it in the calling thread, and then
// accepts it, or refuses it so that the item returns to the queue. Sends exactly one of the two. If
// the memory of an offer does not arrive because its owner is stopped, the offer is refused and
// another one is requested. For one thread.
class QueueGet {
 public:
  // How a get requests an item.
  struct Mode {
    bool waits = true;  // the server replies only when there is an item
    // take() only reads the item; accept() or cancel() must follow. Other processes may see the
    // item before that. So if this process dies then, the item is lost without `redeliver`.
    bool holds = false;
    std::chrono::nanoseconds patience = PatientRequest::kPatience;  // see PatientRequest
  };
  // `under_way` ends with the server's reply. With `pinning`, the item is pinned before it is
  // accepted.
  QueueGet(ParticipantContext& participant, const QueueAddress& address, Access access, Mode mode,
           std::shared_ptr<UnderWay::Request> under_way = nullptr,
           const std::shared_ptr<Pinning>& pinning = nullptr);

  // Returns kDone with an item, which the server counts as taken; kTimedOut if no item has come, or
  // if the server has none; kShutDown if none will come; kInterrupted. Throws the Error that came
  // in place of an item. After a lack of memory, the offer is refused. `driver`: runs handlers
  // during the wait. `life`: if it is done before an offer has come, take() returns kClosed.
  Outcome take(Sample& item, const platform::StopCondition& stop,
               EventLoop::Driver* driver = nullptr, CompletionState* life = nullptr);
  // Accepts the held item. Returns kDone; kTimedOut or kInterrupted while the socket is full.
  // Throws Error(kInvalidArgument) if no item is held. The item is not recorded for task_done().
  Outcome accept(const platform::StopCondition& stop);
  // Refuses the held item: it counts as lost. Throws like accept().
  void spoil();
  // Returns the item's number; 0 without `redeliver` or before the offer.
  std::uint64_t number() const noexcept { return offer_ ? offer_->number : 0; }
  // Returns the channel to the server. Only after take() has received an offer.
  const std::shared_ptr<link::Channel>& server_channel() const noexcept { return offer_->server; }
  // Returns true if take() has returned the final outcome.
  bool answered() const noexcept { return answered_; }
  // Returns true if the server has replied.
  bool has_come() const noexcept { return awaited_->done(); }
  // Returns the completion of the server's reply; null once take() has received the offer.
  CompletionState* awaited() const noexcept { return offer_ ? nullptr : awaited_.get(); }
  // Sleeps until the reply may have come, or `other` is done, for at most `most`. Returns an empty
  // value, without a wait, if it cannot sleep on the rings (ring_sleep.hpp), or if signals must end
  // the wait.
  std::optional<platform::FutexWait> sleep_on_rings(const platform::StopCondition& stop,
                                                    std::chrono::nanoseconds most,
                                                    CompletionState* other);
  // Calls `tell` once, when another take() may succeed; at once if it may succeed now.
  void on_ready(std::function<void()> tell);
  // Gives up the get. Does nothing after the item was accepted or refused.
  void cancel();

 private:
  struct Offer {
    LentRef held;
    std::shared_ptr<link::Channel> server;
    link::Take acceptance;
    std::uint64_t number = 0;  // of the item, for task_done()
    bool is_here = false;      // `held` is in the table of this process
  };
  // An Offer, or the reason why there is none: kTimedOut or kShutDown.
  using Answer = std::shared_ptr<Completion<std::variant<Outcome, Offer>>>;

  // The part of the get that runs on the event loop.
  struct Asking;
  Outcome wait_for_offer(const platform::StopCondition& stop, EventLoop::Driver* driver,
                         CompletionState* life);
  Outcome read(const platform::StopCondition& stop);
  Outcome send_acceptance(const platform::StopCondition& stop);
  void require_held() const;
  void send_spoilt();

  ParticipantContext* participant_;
  QueueAddress address_;
  Access access_;
  bool holds_;
  Answer awaited_;
  QueueRequestRef asked_;
  std::optional<Offer> offer_;         // set when the offer has come
  std::optional<SampleRead> reading_;  // set with offer_
  std::optional<Sample> read_;         // read, but not yet returned
  std::unique_ptr<ItemPin> pin_;       // null: the item is not pinned, or is already
  bool was_read_ = false;
  bool answered_ = false;
  bool over_ = false;  // accepted, refused or given up
};

}  // namespace tensorbus::bus
