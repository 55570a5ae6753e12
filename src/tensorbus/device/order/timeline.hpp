#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "tensorbus/device/gpu_event.hpp"
#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/device/order/mark.hpp"
#include "tensorbus/device/order/order.hpp"
#include "tensorbus/device/order/timeline_pages.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// Counters by which streams of two processes wait for each other (docs/cuda.md, "Order"). The
// lender's streams write the first page, the borrower's the second. Thread-safe.
class Timeline {
 public:
  using Peer = std::shared_ptr<const platform::Fd>;  // a pidfd; null if the kernel has none

  // Makes a private timeline.
  Timeline();
  // Makes the lender's end, with new memory.
  explicit Timeline(Peer borrower);
  // Makes the borrower's end: maps the received memory. Throws Error(kProtocol).
  Timeline(platform::Fd memfd, Peer lender);
  // Does not wait for a GPU: the pages stay until no operation of our streams refers to them.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const platform::Fd& memfd() const noexcept { return memfd_; }
  // Replaces the result of order_of(). Called before anything is enqueued.
  void order_by(OrderBy order) noexcept { order_ = order; }

  // Returns a mark that is reached when all present work of the stream has run. Throws
  // Error(kUnsupported) for a stream that is being captured, and if more than Mark::kSlots streams
  // have work.
  Mark signal(const GpuStream& stream);
  // Makes later work of the stream run after the peer's mark is reached. The stream must signal on
  // this timeline afterwards. If streams cannot wait for counters (OrderBy::kHost), the caller
  // waits. Throws as signal() does.
  void wait(const GpuStream& stream, Mark theirs);
  // Like wait(), for a mark of this process's streams in a private timeline.
  void wait_for_own(const GpuStream& stream, Mark ours);

  // These take no lock and never wait.
  bool reached(Mark theirs) const noexcept { return pages_->reached(theirs); }
  bool reached_own(Mark ours) const noexcept { return pages_->reached_own(ours); }
  bool failed(Mark theirs) const noexcept { return pages_->failed(theirs); }
  void peer_died() noexcept { pages_->peer_died(); }
  // Called when the remaining marks of our streams will not be written: they then count as reached.
  void give_up() noexcept { pages_->give_up(); }

  // Keeps `what` until the peer's mark is reached, or the peer is dead.
  void keep_until(Mark theirs, std::shared_ptr<const void> what);
  // Keeps `what` until a mark of our own is reached.
  void keep_until_own(Mark ours, std::shared_ptr<const void> what);
  // Keeps `what` until the present work of our streams has run.
  void keep_until_passed(std::shared_ptr<const void> what);
  // Keeps `what` while our streams may have work, even after this object's end.
  void keep(std::shared_ptr<const void> what) noexcept { pages_->keep(std::move(what)); }

 private:
  struct Slot {
    std::uint32_t number = 0;
    std::uint64_t value = 0;    // of the newest mark
    std::uint64_t written = 0;  // the last value that was enqueued
  };

  Timeline(platform::Fd memfd, std::size_t own_page, Peer peer, bool shared);
  OrderBy order_on(const GpuStream& stream) const;
  Slot& slot_of(const GpuStream& stream) TB_REQUIRES(mutex_);
  Slot slot_at_rest(const Gpu& device) TB_REQUIRES(mutex_);
  void write(const GpuStream& stream, Mark mark, OrderBy order) TB_REQUIRES(mutex_);
  void record(std::uint32_t slot, const GpuStream& stream) TB_REQUIRES(mutex_);
  void wait_at(const TimelinePages::Counter& counter, const GpuStream& stream, std::uint64_t value);
  bool wait_in_stream(const GpuStream& stream, Mark theirs);

  const std::uint32_t fork_generation_ = platform::fork_generation();
  platform::Fd memfd_;
  std::shared_ptr<TimelinePages> pages_;
  DeferredReleaser::Kept last_{pages_};  // the same pages, released in another thread
  std::optional<OrderBy> order_;
  // Events by slot. They replace the counters of a private timeline if streams cannot wait for
  // counters.
  std::map<std::uint32_t, GpuEvent> events_ TB_GUARDED_BY(mutex_);
  platform::Mutex mutex_;  // held while a signal or a wait is enqueued
  std::map<GpuStream, Slot> slots_ TB_GUARDED_BY(mutex_);  // in our own page
};

}  // namespace tensorbus::device
