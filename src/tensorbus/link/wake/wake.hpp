#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensorbus/platform/atomic.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/futex.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::link {

// docs/internals/protocol.md, section 3, "The wake page".
struct alignas(64) WakePageHeader {
  platform::Atomic<std::uint32_t> life;  // see platform/waiting/life_word.hpp
};
struct alignas(64) WakeSlot {
  platform::Atomic<std::uint32_t> sleeping;  // written only by the participant that owns the page
  platform::Atomic<std::uint32_t> wake;      // written by wakers
};
static_assert(sizeof(WakeSlot) == 64);

inline constexpr std::uint32_t kWakeSlots = 16383;
inline constexpr std::size_t kWakePageBytes =
    sizeof(WakePageHeader) + kWakeSlots * sizeof(WakeSlot);
inline constexpr std::uint32_t kSleepsOnFutex = 1;
inline constexpr std::uint32_t kSleepsOnEvent = 2;
inline constexpr std::uint32_t kSleepsUntilHalfFull = 4;  // the sleeper polls until then

// A participant's own wake page. Unused slots take no memory. Thread-safe.
class WakePage {
 public:
  WakePage();

  const platform::Fd& memfd() const noexcept { return memfd_; }
  // Throws Error(kOutOfMemory) if all slots are taken.
  std::uint32_t take_slot();
  void give_back_slot(std::uint32_t index) noexcept;
  WakeSlot& slot(std::uint32_t index) const noexcept;
  // Shows peers that the participant is alive, until the calling thread has ended.
  void mark_alive() noexcept;

 private:
  platform::Fd memfd_;
  platform::Mapping mapping_;
  platform::Mutex mutex_;
  std::uint32_t next_ TB_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> returned_ TB_GUARDED_BY(mutex_);
};

// A peer's page, mapped to wake its sleepers. Throws Error(kProtocol).
using PeerWakePage = std::shared_ptr<const platform::Mapping>;
PeerWakePage map_peer_wake_page(const platform::Fd& memfd);
// Returns true if the peer's process is alive; false if it has ended or was never marked.
bool marked_alive(const platform::Mapping& page) noexcept;

// One sleeper of this participant; owns its slot. Thread-safe.
class Sleeper {
 public:
  explicit Sleeper(std::shared_ptr<WakePage> page);
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  std::uint32_t index() const noexcept { return index_; }

  // Returns the number of wakes of this sleeper. Acquire: pairs with wake_own().
  std::uint32_t wakes() const noexcept { return slot().wake.load(std::memory_order_acquire); }

  // Sleeps until wakes() exceeds `seen`, at most for `most` and kParkSlice. Calls ready() after
  // wakers can see the sleeper, and does not sleep if it returns true. Several threads may call
  // this at once.
  template <typename Ready>
  platform::FutexWait park(std::uint32_t seen, std::chrono::nanoseconds most, Ready ready) {
    enter(kSleepsOnFutex);
    const auto outcome =
        ready()
            ? platform::FutexWait::kWoken
            : platform::futex_wait(slot().wake, seen,
                                   std::min<std::chrono::nanoseconds>(most, platform::kParkSlice));
    leave(kSleepsOnFutex);
    return outcome;
  }

  // As above, with `seen` as of now: for callers whose ready() detects every event that wakes them.
  template <typename Ready>
  platform::FutexWait park(std::chrono::nanoseconds most, Ready ready) {
    return park(wakes(), most, ready);
  }

  // Wakes the threads of this process that sleep here.
  void wake_own() noexcept;

  // Until disarm_event(), wakers also notify through their notifiers; `how`: always, or only when
  // half of the items that fit wait for this sleeper.
  void arm_event(std::uint32_t how = kSleepsOnEvent) noexcept { enter(how); }
  void disarm_event() noexcept { leave(kSleepsOnEvent); }

 private:
  WakeSlot& slot() const noexcept { return page_->slot(index_); }
  void enter(std::uint32_t how) noexcept;
  void leave(std::uint32_t how) noexcept;

  std::shared_ptr<WakePage> page_;
  std::uint32_t index_;
  platform::Mutex mutex_;
  std::uint32_t parked_ TB_GUARDED_BY(mutex_) = 0;
  std::uint32_t armed_ TB_GUARDED_BY(mutex_) = 0;  // how the event is armed; 0: not armed
};

// Wakes one sleeper of a peer. Several threads may wake at once, but not during set_notifier().
class Waker {
 public:
  Waker() = default;
  // Throws Error(kProtocol) for an index beyond the page.
  Waker(PeerWakePage page, std::uint32_t index);

  void set_notifier(platform::Fd notifier) noexcept { notifier_ = std::move(notifier); }

  // Called after a store of the data that the sleeper waits for and one full fence; or after a
  // sequentially consistent swap, which is also a full fence.
  void wake_if_sleeping() noexcept {
    // Sequentially consistent: after that fence or swap, which pairs with the fence in
    // Sleeper::enter().
    const std::uint32_t sleeping = slot_->sleeping.load(std::memory_order_seq_cst);
    if (sleeping != 0) [[unlikely]]
      wake(sleeping);
  }
  // As above, for a sleeper that may sleep until half_full() is true.
  template <typename HalfFull>
  void wake_if_sleeping(HalfFull half_full) noexcept {
    const std::uint32_t sleeping = slot_->sleeping.load(std::memory_order_seq_cst);
    if (sleeping == 0) [[likely]]
      return;
    const bool due = (sleeping & kSleepsUntilHalfFull) != 0 && half_full();
    wake(due ? sleeping | kSleepsOnEvent : sleeping);
  }

 private:
  void wake(std::uint32_t sleeping) noexcept;

  PeerWakePage page_;
  WakeSlot* slot_ = nullptr;
  platform::Fd notifier_;
};

inline void full_fence() noexcept { platform::atomic_fence(std::memory_order_seq_cst); }

}  // namespace tensorbus::link
