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
#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/device/order/mark_counter.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// The memory of a timeline, and the objects that are kept until its marks are reached. It outlives
// the Timeline, because streams may still use it; DeviceWatch watches it. Thread-safe. Only the
// destructor and address_of() call the driver. address_of() takes no lock that another function
// takes.
class TimelinePages {
 public:
  using Counter = MarkCounter;
  static constexpr std::size_t kBytes = 2 * Mark::kSlots * sizeof(Counter);

  // `own_page`: 0 or 1. `peer`: a pidfd or null. `shared`: other processes also have the memory.
  TimelinePages(const platform::Fd& memfd, std::size_t own_page,
                std::shared_ptr<const platform::Fd> peer, bool shared);

  Counter& own(std::uint32_t slot) const noexcept { return own_[slot]; }
  // A copy of own(slot) that is written after it. No peer can write it, so it is trusted.
  Counter& passed(std::uint32_t slot) const noexcept { return passed_[slot]; }
  bool shared() const noexcept { return passed_.data() != own_.data(); }
  Counter& theirs(std::uint32_t slot) const noexcept { return theirs_[slot]; }
  // Returns the address of a counter as the device sees it. For one thread at a time. Throws
  // Error(kUnsupported) if the driver cannot register the memory.
  cu::DevicePtr address_of(const Counter& counter, const Gpu& device);
  // Called when a stream of this device begins to signal in this slot.
  void used_by(std::uint32_t slot, const Gpu& device) noexcept {
    device_of_[slot].store(&device, std::memory_order_relaxed);
  }

  // Acquire: the work before the mark is visible.
  bool reached_own(Mark mark) const noexcept {
    return !mark || passed(mark.slot).reached(mark.value);
  }
  bool reached(Mark mark) const noexcept { return !mark || theirs(mark.slot).reached(mark.value); }

  // Called when the peer's process is dead. All waits end, and marks that were not reached have
  // failed. A second call does nothing.
  void peer_died() noexcept;
  bool failed(Mark theirs) const noexcept;
  // Marks of streams of devices with a broken context count as reached, because these devices run
  // nothing any more.
  void give_up_broken() noexcept;
  void give_up() noexcept;
  // Returns null if there is no peer, or if peer_died() was called.
  const platform::Fd* living_peer() const noexcept;
  bool peer_is_dead() const noexcept { return dead_.load(std::memory_order_relaxed); }

  // Keeps `what` until the peer's mark is reached, or the peer is dead.
  void keep_until(Mark theirs, std::shared_ptr<const void> what);
  // Keeps `what` until our own streams have reached all of these marks.
  void keep_until_passed(std::vector<Mark> own, std::shared_ptr<const void> what);
  // Keeps `what` while our streams may have work.
  void keep(std::shared_ptr<const void> what) noexcept;
  // Called when nothing signals or waits any more; `last` are the last marks of our streams.
  void end(std::vector<Mark> last) noexcept;

  // Releases the objects that are no longer needed. Returns true if no object is left.
  bool tidy() noexcept;
  // Returns true if tidy() must be called again soon.
  bool restless() const noexcept;

 private:
  static std::span<Counter> page(const platform::Mapping& mapping, std::size_t index) noexcept;

  platform::Mapping mapping_;
  platform::Mapping own_mapping_;  // of passed_, if that is not own_
  std::optional<HostRegistration> registration_;
  std::optional<HostRegistration> own_registration_;
  const std::span<Counter> own_;
  const std::span<Counter> theirs_;
  const std::span<Counter> passed_;
  // Relaxed: a device lives as long as the process.
  std::array<std::atomic<const Gpu*>, Mark::kSlots> device_of_{};
  const std::shared_ptr<const platform::Fd> peer_;

  std::atomic<bool> dead_{false};  // relaxed: the counters provide the order

  mutable platform::Mutex mutex_;
  struct Until {
    Mark mark;
    DeferredReleaser::Kept what;
  };
  struct Passing {
    std::vector<Mark> own;
    DeferredReleaser::Kept what;
  };
  std::list<Until> until_ TB_GUARDED_BY(mutex_);
  std::list<Passing> passing_ TB_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const void>> kept_ TB_GUARDED_BY(mutex_);
  std::vector<Mark> last_ TB_GUARDED_BY(mutex_);
  bool ended_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::device
