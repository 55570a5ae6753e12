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

namespace tensorbus::memory {

// The memory of a timeline, and the objects that wait for its marks. Streams may still use it when
// the program is done with the timeline, so it outlives the Timeline. DeviceWatch looks after it.
// Thread-safe. Only address_of() calls the driver, without a lock that another function takes, and
// the destructor.
class TimelinePages {
 public:
  using Counter = MarkCounter;
  static constexpr std::size_t kBytes = 2 * Mark::kSlots * sizeof(Counter);

  // `own_page`: 0 or 1. `peer`: a pidfd, or null. `shared`: other processes have the memory too.
  TimelinePages(const platform::Fd& memfd, std::size_t own_page,
                std::shared_ptr<const platform::Fd> peer, bool shared);

  Counter& own(std::uint32_t slot) const noexcept { return own_[slot]; }
  // A copy of own(slot), written after it, where no peer can write: our own knowledge.
  Counter& passed(std::uint32_t slot) const noexcept { return passed_[slot]; }
  bool shared() const noexcept { return passed_.data() != own_.data(); }
  Counter& theirs(std::uint32_t slot) const noexcept { return theirs_[slot]; }
  // Returns the address at which the device sees a counter. For one thread at a time. Throws
  // Error(kUnsupported) if the driver cannot register the memory.
  platform::cu::DevicePtr address_of(const Counter& counter, const platform::Gpu& device);
  // A stream of this device signals in this slot from now on.
  void used_by(std::uint32_t slot, const platform::Gpu& device) noexcept {
    device_of_[slot].store(&device, std::memory_order_relaxed);
  }

  // Acquire: the work before the mark has been done.
  bool reached_own(Mark mark) const noexcept {
    return !mark || passed(mark.slot).reached(mark.value);
  }
  bool reached(Mark mark) const noexcept { return !mark || theirs(mark.slot).reached(mark.value); }

  // The peer's process is dead and will signal nothing more. All that wait go on, and marks that
  // were not reached by now have failed. A second call does nothing.
  void peer_died() noexcept;
  bool failed(Mark theirs) const noexcept;
  // Devices with a broken context run nothing: marks of their streams count as reached.
  void give_up_broken() noexcept;
  void give_up() noexcept;
  // Returns null if there is no peer, or it is known to be dead.
  const platform::Fd* living_peer() const noexcept;
  bool peer_is_dead() const noexcept { return dead_.load(std::memory_order_relaxed); }

  // Keeps `what` until the peer's mark is reached, or the peer is dead.
  void keep_until(Mark theirs, std::shared_ptr<const void> what);
  // Keeps `what` until our own streams have reached all of these marks.
  void keep_until_passed(std::vector<Mark> own, std::shared_ptr<const void> what);
  // Keeps `what` while streams of ours may have work left.
  void keep(std::shared_ptr<const void> what) noexcept;
  // Nothing signals or waits any more; `last` are the last marks of our streams.
  void end(std::vector<Mark> last) noexcept;

  // Has what is no longer needed released; returns true if nothing is left.
  bool tidy() noexcept;
  // Returns true if tidy() must be called again soon.
  bool restless() const noexcept;

 private:
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

}  // namespace tensorbus::memory
