#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "tensorbus/device/gpu_event.hpp"
#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/device/order/mark.hpp"
#include "tensorbus/device/order/order.hpp"
#include "tensorbus/device/order/timeline_pages.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {

// Two pages of counters, by which the streams of two processes wait for one another (docs/cuda.md,
// "Order"). The lender's streams write the first page, the borrower's the second. Thread-safe.
class Timeline {
 public:
  using Peer = std::shared_ptr<const platform::Fd>;  // a pidfd; null where there are none

  // Nobody else has it ...
  Timeline();
  // ... or the lender makes it ...
  explicit Timeline(Peer borrower);
  // ... and the borrower maps what it was sent. Throws Error(kProtocol).
  Timeline(platform::Fd memfd, Peer lender);
  // Its pages stay until our streams have no operation left that refers to them: nobody waits for a
  // GPU here.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const platform::Fd& memfd() const noexcept { return memfd_; }
  // Instead of what order_of() says. Before anything is enqueued.
  void order_by(OrderBy order) noexcept { order_ = order; }

  // A mark that is reached when all that is enqueued on the stream now has run. Throws
  // Error(kUnsupported) for a stream that is being captured, and for more than Mark::kSlots streams
  // at work.
  Mark signal(const platform::GpuStream& stream);
  // What is enqueued on the stream from now on runs after the peer's mark is reached. The stream is
  // to signal here afterwards. Where streams cannot wait themselves, the caller does. Throws the
  // same.
  void wait(const platform::GpuStream& stream, Mark theirs);
  // The same for a mark of ours, in a timeline that nobody else has.
  void wait_for_own(const platform::GpuStream& stream, Mark ours);

  // These take no lock, and never wait.
  bool reached(Mark theirs) const noexcept { return pages_->reached(theirs); }
  bool reached_own(Mark ours) const noexcept { return pages_->reached_own(ours); }
  bool failed(Mark theirs) const noexcept { return pages_->failed(theirs); }
  void peer_died() noexcept { pages_->peer_died(); }
  // Nobody will write what our streams were to signal: it counts as reached.
  void give_up() noexcept { pages_->give_up(); }

  // Until the peer's mark is reached, or it is dead.
  void keep_until(Mark theirs, std::shared_ptr<const void> what);
  // Until a mark of ours is.
  void keep_until_own(Mark ours, std::shared_ptr<const void> what);
  // Until what our streams have been told to do by now has run.
  void keep_until_passed(std::shared_ptr<const void> what);
  // For as long as our streams may have operations left, also beyond our end.
  void keep(std::shared_ptr<const void> what) noexcept { pages_->keep(std::move(what)); }

 private:
  struct Slot {
    std::uint32_t number = 0;
    std::uint64_t value = 0;    // the last that was given to a mark
    std::uint64_t written = 0;  // and enqueued
  };

  Timeline(platform::Fd memfd, std::size_t own_page, Peer peer, bool shared);
  OrderBy order_on(const platform::GpuStream& stream) const;
  Slot& slot_of(const platform::GpuStream& stream) TB_REQUIRES(mutex_);
  Slot slot_at_rest(const platform::Gpu& device) TB_REQUIRES(mutex_);
  void write(const platform::GpuStream& stream, Mark mark, OrderBy order) TB_REQUIRES(mutex_);
  void record(std::uint32_t slot, const platform::GpuStream& stream) TB_REQUIRES(mutex_);
  void wait_at(const TimelinePages::Counter& counter, const platform::GpuStream& stream,
               std::uint64_t value);
  bool wait_in_stream(const platform::GpuStream& stream, Mark theirs);

  const std::uint32_t fork_generation_ = platform::fork_generation();
  platform::Fd memfd_;
  const std::shared_ptr<TimelinePages> pages_;
  std::optional<OrderBy> order_;
  // Of a timeline that nobody else has, for streams that cannot wait for its counters: by slot.
  std::map<std::uint32_t, platform::GpuEvent> events_ TB_GUARDED_BY(mutex_);
  platform::Mutex mutex_;  // held while a stream is told to signal or to wait
  std::map<platform::GpuStream, Slot> slots_ TB_GUARDED_BY(mutex_);  // in our own page
};

}  // namespace tensorbus::memory
