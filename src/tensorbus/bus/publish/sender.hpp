#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/inspected.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/bus/copy/copy_tuner.hpp"
#include "tensorbus/bus/event_loop/polled_event.hpp"
#include "tensorbus/bus/publish/outgoing_rows.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/link/ring/owner_link.hpp"
#include "tensorbus/link/trace/trace_ring.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// Delivers the samples of a publisher: its links, history, counters, and issued samples.
// Thread-safe: the event loop adopts and ends links under the mutex of publish(). Its Publisher and
// its links share it.
class Sender {
 public:
  Sender(std::string topic, std::uint32_t number, const PublisherOptions& options,
         std::shared_ptr<memory::Arena> arena, std::shared_ptr<link::WakePage> wake_page,
         link::MirrorOrigin origin = {});
  ~Sender() { close(); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  const std::string& topic() const noexcept { return topic_; }
  std::uint32_t number() const noexcept { return number_; }
  const PublisherOptions& options() const noexcept { return options_; }
  const link::MirrorOrigin& origin() const noexcept { return origin_; }  // empty: not a mirror
  std::uint32_t wake_slot() const noexcept { return sleeper_.index(); }
  // Returns the largest grant on this publisher's memory that subscribers may have.
  memory::Grant max_grant() const noexcept {
    return options_.shared ? memory::Grant::kWrite : memory::Grant::kRead;
  }
  // Returns the pool of its host memory, except files.
  memory::PoolId pool() const noexcept { return pool_; }

  // Publishes the sample. Unless the outcome is kDone, no subscriber gets it, and the caller keeps
  // it. With `as`, throws Error(kInvalidArgument) if its number is smaller than the next number.
  Published publish(OutgoingSample& sample, const platform::StopCondition& stop,
                    const Stamp* as = nullptr);
  // Publishes the messages in order, as if by one publish() each. A reliable publisher publishes as
  // many messages at a time as all links have room for. Counts them in `done`. Unless its outcome
  // is kDone, no subscriber gets the remaining messages. Throws like publish().
  void publish_many(OutgoingRows& rows, const platform::StopCondition& stop, PublishedMany& done);
  // Drops the history and continues with this number. Returns false, without effect, if there are
  // subscribers or the publisher is closed. A mirror that continues with 0 has not begun: its first
  // number is not known.
  bool restart(std::uint64_t sequence);
  // For a mirror that has not begun: it begins with this number. If its first sample has a larger
  // number, the samples before that sample are lost. Without this call, a mirror begins with its
  // first sample.
  void begin_at(std::uint64_t sequence);

  // Returns true if publish() would not wait for room now; else arms the descriptor.
  bool ready();
  // Returns a descriptor to poll: readable when the result of ready() or wait_for_subscribers() may
  // have changed. Each ready() that returns false re-arms it.
  int event_descriptor();

  Outcome wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop);
  std::uint32_t subscribers() const;
  PublisherStats stats();
  // Takes the mutex only to copy counters.
  PublisherReport report();
  // Returns the samples that the borrower of a link holds.
  link::HeldSamples held_samples(const link::OwnerLink& link) const;

  // Takes back the samples that subscribers returned.
  void drain();
  // As drain(), but does nothing if another thread holds the mutex: a publishing thread drains
  // itself.
  void drain_if_idle();
  // Ends publishing. Afterwards links only drain. With `broken_off`, the links end as if the
  // process had died, and the stream does not end. Returns false if the publisher was closed
  // before.
  bool close(bool broken_off = false);
  bool closed() const noexcept;

  // The functions below are for the event loop only.

  // Returns the limits of a link whose borrower requests `asked`.
  link::LinkLimits limits_of(link::LinkLimits asked) const noexcept;
  struct Adopted {
    std::shared_ptr<link::OwnerLink> link;
    std::uint64_t next_sequence = 0;
  };
  // Announces the link to its borrower before publish() uses the link: later samples arrive even if
  // this process dies at once.
  using Announce = std::function<void(const Adopted&)>;
  // Makes a link and puts the history into it, before the next publish() can run; for a subscriber
  // that was cut off, from `resume_at` on. The link is reliable if the publisher and the borrower
  // are. The result is empty if the publisher is closed. If `announce` throws, no link is made.
  Adopted adopt(link::LinkLimits limits, link::Waker subscriber,
                std::shared_ptr<link::SegmentSender> segments, link::Borrower borrower,
                std::uint64_t resume_at, const Announce& announce);
  void set_notifier(const std::shared_ptr<link::OwnerLink>& link, platform::Fd notifier);
  bool polled() const;
  // The borrower notifies `listener` of room; `listener` may be empty.
  void listen(const std::shared_ptr<link::OwnerLink>& link, platform::Fd listener);
  // Stops a link after UNSUBSCRIBE or a death. Returns true if the borrower still has samples.
  bool stop_link(const std::shared_ptr<link::OwnerLink>& link);
  // Takes all samples of a link back, after DONE or the end of a lineage.
  void end_link(const std::shared_ptr<link::OwnerLink>& link);
  // Returns the sample that is lent on a link under this token, or null.
  link::PublishedRef issued(const link::OwnerLink& link, std::uint64_t token) const;
  // Sets a function that is called, under mutex_, when a link is stopped because of its borrower.
  void on_link_stopped(std::function<void()> callback) { link_stopped_ = std::move(callback); }
  // Sets a function that is called, under mutex_, when subscribers() has changed.
  void on_subscribers_changed(std::function<void()> callback) {
    subscribers_changed_ = std::move(callback);
  }
  // Returns true if subscribers() has changed since the last call.
  bool take_change() noexcept { return changed_.exchange(false, std::memory_order_relaxed); }
  bool gets_nothing_more(const link::OwnerLink& link) const;

  // Sets a function that is called, under mutex_, when the first sample is dropped after a
  // take_drops() that returned nothing.
  void on_drops(std::function<void()> callback) { on_drops_ = std::move(callback); }
  // The samples that were dropped for a link since the last take_drops(). Links without drops are
  // left out.
  struct Dropped {
    std::shared_ptr<const link::OwnerLink> link;
    link::Drops drops;
  };
  std::vector<Dropped> take_drops();

  // Writes a record of each later sample into this ring; null: writes no records.
  void trace(std::shared_ptr<link::TraceRing> ring);
  // Returns true if a trace ring is set. Relaxed: trace_ decides which samples are recorded.
  bool traced() const noexcept { return traced_.load(std::memory_order_relaxed); }

  // Returns the tuner for copies of tensors that lie outside the memory of the bus.
  CopyTuner& copies() noexcept { return copies_; }

 private:
  using Links = std::vector<std::shared_ptr<link::OwnerLink>>;
  bool all_have_room() TB_REQUIRES(mutex_);
  std::chrono::nanoseconds look_after_blocking() TB_REQUIRES(mutex_);
  const link::OwnerLink* longest_blocking() TB_REQUIRES(mutex_);
  bool stop_broken_links() TB_REQUIRES(mutex_);
  template <typename Which>
  std::uint32_t stop_links(const Which& which, void (link::OwnerLink::*stop)() noexcept)
      TB_REQUIRES(mutex_);
  Outcome wait_for_room(const platform::StopCondition& stop) TB_REQUIRES(mutex_);
  Outcome wait_for_room_in_all(const platform::StopCondition& stop) TB_REQUIRES(mutex_);
  Published push_to_all(OutgoingSample& sample, const Stamp* as) TB_REQUIRES(mutex_);
  void push_rows_to_all(OutgoingRows& rows, PublishedMany& done) TB_REQUIRES(mutex_);
  bool push_rows(link::OwnerLink& link, const OutgoingRows& rows, std::uint32_t count)
      TB_REQUIRES(mutex_);
  bool make_room(link::OwnerLink& link) TB_REQUIRES(mutex_);
  void wake_subscribers() TB_REQUIRES(mutex_);
  void drain_after_push() TB_REQUIRES(mutex_);
  void require_next(std::uint64_t sequence) const TB_REQUIRES(mutex_);
  void begin(std::uint64_t sequence) noexcept TB_REQUIRES(mutex_);
  PublisherStats stats_now() TB_REQUIRES(mutex_);
  void note_change() TB_REQUIRES(mutex_);
  void note_drops() TB_REQUIRES(mutex_);
  void drop_unsent(link::OwnerLink& link) TB_REQUIRES(mutex_);
  std::chrono::nanoseconds longest_park() const TB_REQUIRES(mutex_);
  void drain_links() TB_REQUIRES(mutex_);
  void wake_all() noexcept TB_REQUIRES(mutex_);
  void drop_listener(link::OwnerLink& link) noexcept TB_REQUIRES(mutex_);
  void remember(const link::Entry& entry, const link::PublishedRef& sample) TB_REQUIRES(mutex_);

  const std::string topic_;
  const std::uint32_t number_;
  const PublisherOptions options_;
  const link::MirrorOrigin origin_;
  const std::shared_ptr<memory::Arena> arena_;
  std::function<void()> link_stopped_;
  std::function<void()> subscribers_changed_;
  std::function<void()> on_drops_;
  std::atomic<bool> changed_{false};  // relaxed: subscribers_changed_() orders it
  link::ByteCounter in_flight_;
  CopyTuner copies_;
  link::Sleeper sleeper_;  // parks in publish() and wait_for_subscribers()

  struct Kept {
    link::Entry entry;
    link::PublishedRef sample;
  };
  mutable platform::Mutex mutex_;
  Links links_ TB_GUARDED_BY(mutex_);
  // Links that get no new samples and whose borrowers may still hold leases. Capacity for all links
  // is reserved.
  Links stopped_ TB_GUARDED_BY(mutex_);
  std::optional<PolledEvent> event_ TB_GUARDED_BY(mutex_);
  bool event_armed_ TB_GUARDED_BY(mutex_) = false;  // borrowers notify event_
  std::deque<Kept> history_ TB_GUARDED_BY(mutex_);
  std::uint64_t next_sequence_ TB_GUARDED_BY(mutex_) = 0;
  bool begun_ TB_GUARDED_BY(mutex_) = origin_.machine.empty();  // for mirrors: see begin_at()
  std::atomic<bool> traced_{false};
  std::atomic<bool> closed_{false};  // written under mutex_; relaxed: publish() checks again there
  PublisherStats stats_ TB_GUARDED_BY(mutex_);
  std::uint64_t bytes_sent_ TB_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<link::TraceRing> trace_ TB_GUARDED_BY(mutex_);  // null: not traced
  bool drops_pending_ TB_GUARDED_BY(mutex_) = false;              // take_drops() will be called
  const memory::PoolId pool_;  // last, so that no later member can throw
};

}  // namespace tensorbus::bus
