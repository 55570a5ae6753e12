#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/bus/event_loop/turn.hpp"

namespace tensorbus::bus {

bool EventLoop::Driver::take() noexcept {
  if (taken_) return true;
  if (loop_.is_in_turn()) return false;
  std::thread::id none{};
  // Acquire: pairs with leave() of the last driver, which has changed outer_ before.
  taken_ = loop_.driver_.compare_exchange_strong(none, std::this_thread::get_id(),
                                                 std::memory_order_acquire);
  if (taken_) loop_.outer_.modify(loop_.poller_.fd(), kPoller, {.readable = false});
  return taken_;
}

void EventLoop::Driver::leave() noexcept {
  if (!std::exchange(taken_, false)) return;
  // Relaxed: no thread kicks any more. Each thread that did so has held the mutex of the awaited
  // completion.
  if (loop_.kicked_.exchange(false, std::memory_order_relaxed))
    platform::clear_event(loop_.kick_.get());
  loop_.outer_.modify(loop_.poller_.fd(), kPoller, {});
  loop_.driver_.store({}, std::memory_order_release);  // pairs with take()
}

bool EventLoop::Driver::turn(std::chrono::nanoseconds most) {
  platform::Poller::Tags tags;
  const auto [count, interrupted] = loop_.poller_.wait(most, tags);
  if (count == 0) {
    if (most.count() == 0) std::this_thread::yield();  // to the process that will reply
    return !interrupted;
  }
  const Turn turn(loop_);
  for (std::size_t i = 0; i < count; ++i) loop_.dispatch(tags[i]);
  loop_.run_soon();
  return true;
}

void EventLoop::Driver::kick(EventLoop& loop) noexcept {
  if (loop.driver_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
  loop.kicked_.store(true, std::memory_order_relaxed);
  platform::signal_event(loop.kick_.get());
}

}  // namespace tensorbus::bus
