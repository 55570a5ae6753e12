#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/subscribe/pinning.hpp"
#include "tensorbus/platform/clock.hpp"

namespace tensorbus::bus {

// Pins one item, after it was read. Waits for the replies of the owners of its memory, for at most
// kPatience: an owner may be stopped. For one thread.
class ItemPin {
 public:
  static constexpr std::chrono::milliseconds kPatience{100};

  ItemPin(ParticipantContext& participant, std::shared_ptr<Pinning> pinning)
      : participant_(participant), pinning_(std::move(pinning)) {}
  ItemPin(const ItemPin&) = delete;
  ItemPin& operator=(const ItemPin&) = delete;
  ~ItemPin() { withdraw(); }

  // Returns kDone if the item is pinned as far as possible; else kTimedOut or kInterrupted, and
  // must be called again with the same item. `driver`: runs handlers during the wait.
  Outcome pin(Sample& item, const platform::StopCondition& stop,
              EventLoop::Driver* driver = nullptr);
  // After kTimedOut: calls `tell` once, when pin() should be called again.
  void on_ready(std::function<void()> tell) { reply_->on_done(std::move(tell)); }

 private:
  enum class Reply { kCame, kMissing };

  bool expect_reply() noexcept;
  void notify_of_any_reply();
  void withdraw() noexcept;

  ParticipantContext& participant_;
  const std::shared_ptr<Pinning> pinning_;
  std::vector<Pinning::Awaited> awaited_;
  std::shared_ptr<Completion<Reply>> reply_;  // set while awaited_ is not empty
  std::optional<platform::Deadline> deadline_;
};

}  // namespace tensorbus::bus
