#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tensorbus/device/order/mark_counter.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/platform/faults/spin_lock.hpp"
#include "tests/model/weak_memory/explorer.hpp"
#include "tests/model/weak_memory/fresh.hpp"
#include "tests/model/weak_memory/modelled_atomic.hpp"
#include "tests/model/weak_memory/wake_pages.hpp"

namespace tensorbus::model {

// A stream writes to memory, and reaches its mark. Then the memory is reused.
class MarkScenario : public Scenario {
 public:
  std::size_t threads() const override { return 2; }
  void begin() override { all_.make_again(); }
  void run(std::size_t thread) override {
    if (thread == 0) {
      all_->memory.write(7);
      all_->counter.reach(1);
    } else if (all_->counter.reached(1)) {
      all_->memory.write(8);
    }
  }
  std::string end(bool) override { return ""; }

 protected:
  struct Objects {
    device::MarkCounter counter{};
    Plain memory;
  };
  Fresh<Objects> all_;
};

// As MarkScenario, but a process also gives the counter up, perhaps before the mark: then the
// memory is not read.
class GivenUpScenario final : public MarkScenario {
 public:
  std::size_t threads() const override { return 3; }
  void run(std::size_t thread) override {
    if (thread == 0) return MarkScenario::run(thread);
    if (thread == 1) return all_->counter.give_up();
    if (all_->counter.reached(1) && !all_->counter.failed(1))
      require(all_->memory.read() == 7, "memory is read before it is written");
  }
};

// Threads that hold the lock of a list of addresses in turn.
class LockScenario : public Scenario {
 public:
  std::size_t threads() const override { return 3; }
  void begin() override { all_.make_again(); }
  void run(std::size_t) override {
    if (!all_->lock.try_lock()) return;
    all_->list.write(all_->list.read() + 1);
    all_->lock.unlock();
  }
  std::string end(bool) override { return ""; }

 private:
  struct Objects {
    platform::SpinLock lock;
    Plain list;
  };
  Fresh<Objects> all_;
};

// A thread that sees that a thread of its own process has woken it also sees the reason, even
// without a fence.
class WakeOwnScenario : public Scenario {
 public:
  std::size_t threads() const override { return 2; }
  void begin() override { all_.make_again(); }
  void run(std::size_t thread) override {
    link::Sleeper& sleeper = all_->sleeper;
    if (thread == 0) {
      all_->message.write(7);
      sleeper.wake_own();
    } else {
      const std::uint32_t seen = sleeper.wakes();
      (void)sleeper.park(seen, std::chrono::hours(1), [&] { return sleeper.wakes() != seen; });
      if (sleeper.wakes() != 0) require(all_->message.read() == 7, "who is woken does not see why");
    }
  }
  const void* canonical(const void* location) const override {
    return WakePages::canonical(location);
  }
  std::string end(bool) override { return ""; }  // a thread that came too late sleeps on

 private:
  struct Objects {
    link::Sleeper sleeper{WakePages::own()};
    Plain message;
  };

  Fresh<Objects> all_;
};

}  // namespace tensorbus::model
