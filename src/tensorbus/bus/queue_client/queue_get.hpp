#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/sample_read.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// A get that is under way: the host's offer is awaited, read by the thread that asked, and then
// accepted; or it is refused, and the item is where it was. Exactly one of both is sent. An offer
// whose memory does not come, since its owner is stopped, is refused, and another asked for. For
// one thread.
class QueueGet {
 public:
  // `waits`: until there is an item.
  QueueGet(ParticipantCore& core, const QueueAddress& address, Access access, bool waits);

  // kDone with an item, which the host knows to be in our hand; kTimedOut: not yet, or there is
  // none; kInterrupted. Throws what came instead. When memory was short for it, the offer has been
  // refused.
  Outcome take(Sample& item, const platform::StopCondition& stop);
  // Has the host answered?
  bool has_come() const noexcept { return awaited_->done(); }
  // Called once when take() is worth another try, at once if it is now.
  void on_ready(std::function<void()> tell);
  // Nobody waits any more. After kDone it does nothing.
  void cancel();

 private:
  struct Offer {
    LentRef held;
    std::shared_ptr<link::Channel> host;
    link::Take acceptance;
    std::uint64_t number = 0;  // of the item, for task_done()
  };
  using Answer = std::shared_ptr<Completion<std::optional<Offer>>>;  // empty: there was none

  // What the event loop knows of it.
  struct Asking;
  Outcome wait_for_offer(const platform::StopCondition& stop);
  Outcome read(const platform::StopCondition& stop);
  Outcome accept(const platform::StopCondition& stop);
  void spoil();

  ParticipantCore* core_;
  QueueAddress address_;
  Access access_;
  Answer awaited_;
  QueueRequestRef asked_;
  std::optional<Offer> offer_;         // since it came
  std::optional<SampleRead> reading_;  // the same
  std::optional<Sample> read_;         // not accepted yet
  bool over_ = false;                  // accepted, or refused
};

}  // namespace tensorbus::bus
