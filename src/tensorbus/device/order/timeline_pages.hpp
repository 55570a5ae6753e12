#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/device/order/mark.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {

// The memory of a timeline, and what waits for it: of a program that is through with the timeline
// some streams may not be, and they outlive it. Looked after by DeviceWatch. Thread-safe; nothing
// but registered() calls the driver, and no lock is held meanwhile that anything else takes.
class TimelinePages {
 public:
  using Counter = std::atomic<std::uint64_t>;
  static constexpr std::size_t kBytes = 2 * Mark::kSlots * sizeof(Counter);

  // `own_page`: 0 or 1. `peer`: a pidfd, or null. `shared`: others have the memory, too.
  TimelinePages(const platform::Fd& memfd, std::size_t own_page,
                std::shared_ptr<const platform::Fd> peer, bool shared);

  Counter& own(std::uint32_t slot) const noexcept { return own_[slot]; }
  // The same, written after it, where no peer can write: what we know ourselves.
  Counter& passed(std::uint32_t slot) const noexcept { return passed_[slot]; }
  bool shared() const noexcept { return passed_.data() != own_.data(); }
  Counter& theirs(std::uint32_t slot) const noexcept { return theirs_[slot]; }
  // Where the device sees a counter. For one thread at a time. Throws Error(kUnsupported) where the
  // driver cannot do that.
  platform::cu::DevicePtr address_of(const Counter& counter, const platform::Gpu& device);
  // A stream of this device signals in the slot from now on.
  void used_by(std::uint32_t slot, const platform::Gpu& device) noexcept {
    device_of_[slot].store(&device, std::memory_order_relaxed);
  }

  // Acquire: what was done before the mark has been done.
  bool reached_own(Mark mark) const noexcept {
    return !mark || passed(mark.slot).load(std::memory_order_acquire) >= mark.value;
  }
  bool reached(Mark mark) const noexcept {
    return !mark || theirs(mark.slot).load(std::memory_order_acquire) >= mark.value;
  }

  // The peer's process is dead: what it has not signalled it never will. Whoever waits goes on, and
  // marks that were not reached by now have failed. A second call does nothing.
  void peer_died() noexcept;
  bool failed(Mark theirs) const noexcept;
  // The contexts of broken devices do nothing any more: says so in what their streams signal.
  void give_up_broken() noexcept;
  void give_up() noexcept;
  // Null if there is none, or it is known to be dead.
  const platform::Fd* living_peer() const noexcept;
  bool peer_is_dead() const noexcept { return dead_.load(std::memory_order_relaxed); }

  // Until the peer's mark is reached, or it is dead.
  void keep_until(Mark theirs, std::shared_ptr<const void> what);
  // Until our own streams have reached all of these.
  void keep_until_passed(std::vector<Mark> own, std::shared_ptr<const void> what);
  // For as long as streams of ours may have operations left.
  void keep(std::shared_ptr<const void> what) noexcept;
  // Nobody signals or waits any more; these were the last marks of our streams.
  void end(std::vector<Mark> last) noexcept;

  // Lets go of what is done with; true if that is all.
  bool tidy() noexcept;
  // Is there something to look at again soon?
  bool restless() const noexcept;

 private:
  static_assert(sizeof(Counter) == sizeof(std::uint64_t) && Counter::is_always_lock_free);
  static std::span<Counter> page(const platform::Mapping& mapping, std::size_t index) noexcept;

  platform::Mapping mapping_;
  platform::Mapping own_mapping_;  // of passed_, if it is not own_
  std::optional<platform::HostRegistration> registration_;
  std::optional<platform::HostRegistration> own_registration_;
  const std::span<Counter> own_;
  const std::span<Counter> theirs_;
  const std::span<Counter> passed_;
  // Relaxed: a device lives as long as the process.
  std::array<std::atomic<const platform::Gpu*>, Mark::kSlots> device_of_{};
  const std::shared_ptr<const platform::Fd> peer_;

  std::atomic<bool> dead_{false};  // relaxed: the counters say the rest

  mutable platform::Mutex mutex_;
  std::vector<std::pair<Mark, std::shared_ptr<const void>>> until_ TB_GUARDED_BY(mutex_);
  struct Passing {
    std::vector<Mark> own;
    std::shared_ptr<const void> what;
  };
  std::list<Passing> passing_ TB_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const void>> kept_ TB_GUARDED_BY(mutex_);
  std::vector<Mark> last_ TB_GUARDED_BY(mutex_);
  bool ended_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::memory
