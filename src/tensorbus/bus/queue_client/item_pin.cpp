#include "tensorbus/bus/queue_client/item_pin.hpp"

#include <exception>
#include <utility>

namespace tensorbus::bus {

Outcome ItemPin::pin(Sample& item, const platform::StopCondition& stop, EventLoop::Driver* driver) {
  while (true) {
    if (awaited_.empty()) {
      awaited_ = pinning_->pin(item);
      if (awaited_.empty() || !expect_reply()) return Outcome::kDone;
    }
    const Outcome outcome = driver != nullptr ? reply_->wait(stop, *driver) : reply_->wait(stop);
    if (outcome != Outcome::kDone) return outcome;
    if (reply_->take() == Reply::kMissing) {
      for (const Pinning::Awaited& one : std::exchange(awaited_, {}))
        one.blocks->give_up(one.block);
      awaited_ = pinning_->pin(item);  // keeps the pins that other owners have granted
      withdraw();
      return Outcome::kDone;
    }
    awaited_.clear();
  }
}

// Returns false without memory for the wait: the item works without the pin.
bool ItemPin::expect_reply() noexcept {
  try {
    notify_of_any_reply();
    return true;
  } catch (const std::exception&) {
    withdraw();
    return false;
  }
}

void ItemPin::notify_of_any_reply() {
  reply_ = std::make_shared<Completion<Reply>>();
  if (!deadline_) deadline_.emplace(kPatience);
  const auto tell = [](const std::weak_ptr<Completion<Reply>>& weak, Reply came) {
    if (const auto reply = weak.lock()) (void)reply->set(Reply(came));
  };
  const std::weak_ptr<Completion<Reply>> weak = reply_;
  for (const Pinning::Awaited& one : awaited_)
    one.blocks->on_answer(one.block, [=] { tell(weak, Reply::kCame); });
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_->remaining(kPatience));
  participant_.post([=](ParticipantContext& context) {
    context.loop.post_later(left, [=] { tell(weak, Reply::kMissing); });
  });
}

void ItemPin::withdraw() noexcept {
  Pinning::withdraw(awaited_);
  awaited_.clear();
}

}  // namespace tensorbus::bus
