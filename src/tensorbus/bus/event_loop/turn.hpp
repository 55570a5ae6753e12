#pragma once

#include <mutex>
#include <thread>

#include "tensorbus/bus/event_loop/event_loop.hpp"

namespace tensorbus::bus {

// While a Turn exists, only the thread that made it runs handlers and tasks.
class TB_SCOPED_CAPABILITY EventLoop::Turn {
 public:
  explicit Turn(EventLoop& loop) TB_ACQUIRE(loop.turn_) : loop_(loop) {
    loop_.turn_.lock();
    begin();
  }
  Turn(EventLoop& loop, std::adopt_lock_t) TB_REQUIRES(loop.turn_) : loop_(loop) { begin(); }
  ~Turn() TB_RELEASE() {
    loop_.running_.store({}, std::memory_order_relaxed);
    loop_.turn_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  void begin() noexcept {
    loop_.running_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }

  EventLoop& loop_;
};

}  // namespace tensorbus::bus
