#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/sample_read.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/queue_client/under_way.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// A get() under way. Waits for the host's offer, reads it in the calling thread, and then accepts
// it; or refuses it, and the item goes back. Exactly one of both is sent. An offer whose memory
// does not come, since its owner is stopped, is refused, and another is requested. For one thread.
class QueueGet {
 public:
  // How a get asks for an item.
  struct Mode {
    bool waits = true;  // the host answers when there is an item
    // take() only reads the item; accept() or cancel() follows. Others may see the item before:
    // without `redeliver` it is lost if this process dies then.
    bool holds = false;
    std::chrono::nanoseconds patience = PatientRequest::kPatience;  // see there
  };
  // `under_way` ends with the host's answer.
  QueueGet(ParticipantCore& core, const QueueAddress& address, Access access, Mode mode,
           std::shared_ptr<UnderWay::Request> under_way = nullptr);

  // Returns kDone with an item, which the host counts as taken; kTimedOut if it has not come or
  // there is none; kShutDown if none will come; kInterrupted. Throws an Error that came instead. If
  // memory was short, it has refused the offer.
  // `driver`: runs handlers while this waits. `life`: kClosed if that is done, and no offer came.
  Outcome take(Sample& item, const platform::StopCondition& stop,
               EventLoop::Driver* driver = nullptr, CompletionState* life = nullptr);
  // Accepts the item that is held. Returns kDone; kTimedOut or kInterrupted while the socket takes
  // no more. Throws Error(kInvalidArgument) if none is held. task_done() does not know of the item.
  Outcome accept(const platform::StopCondition& stop);
  // Refuses the item that is held for good: it counts as lost. Throws as accept().
  void spoil();
  // Returns the item's number, 0 without `redeliver` or before it came.
  std::uint64_t number() const noexcept { return offer_ ? offer_->number : 0; }
  // Returns the channel to the host, once an offer was taken.
  const std::shared_ptr<link::Channel>& host_channel() const noexcept { return offer_->host; }
  // Returns true if take() has said what became of it.
  bool answered() const noexcept { return answered_; }
  // Returns true if the host has answered.
  bool has_come() const noexcept { return awaited_->done(); }
  // Returns what tells that the host has answered; null once its offer was taken.
  CompletionState* awaited() const noexcept { return offer_ ? nullptr : awaited_.get(); }
  // Sleeps until the answer may have come, or `other` is done, for at most `most`; nothing if items
  // are not to be waited for so (ring_sleep.hpp), or signals are to end the wait.
  std::optional<platform::FutexWait> sleep_on_rings(const platform::StopCondition& stop,
                                                    std::chrono::nanoseconds most,
                                                    CompletionState* other);
  // Calls `tell` once when another take() may succeed, at once if it may now.
  void on_ready(std::function<void()> tell);
  // Gives the get up. After kDone it does nothing.
  void cancel();

 private:
  struct Offer {
    LentRef held;
    std::shared_ptr<link::Channel> host;
    link::Take acceptance;
    std::uint64_t number = 0;  // of the item, for task_done()
    bool is_here = false;      // `held` is in the table of this process
  };
  // An Offer, or why there is none: kTimedOut or kShutDown.
  using Answer = std::shared_ptr<Completion<std::variant<Outcome, Offer>>>;

  // The part of the get that belongs to the event loop.
  struct Asking;
  Outcome wait_for_offer(const platform::StopCondition& stop, EventLoop::Driver* driver,
                         CompletionState* life);
  Outcome read(const platform::StopCondition& stop);
  Outcome send_acceptance(const platform::StopCondition& stop);
  void require_held() const;
  void send_spoilt();

  ParticipantCore* core_;
  QueueAddress address_;
  Access access_;
  bool holds_;
  Answer awaited_;
  QueueRequestRef asked_;
  std::optional<Offer> offer_;         // set when it came
  std::optional<SampleRead> reading_;  // set with offer_
  std::optional<Sample> read_;         // not returned yet
  bool was_read_ = false;
  bool answered_ = false;
  bool over_ = false;  // accepted, or refused
};

}  // namespace tensorbus::bus
