#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/values/inspected.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <variant>
#include <vector>

#include "tensorbus/bus/event_loop/polled_event.hpp"
#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/host_copy_request.hpp"
#include "tensorbus/bus/subscribe/missing_samples.hpp"
#include "tensorbus/bus/subscribe/pending_sample.hpp"
#include "tensorbus/bus/subscribe/pinning.hpp"
#include "tensorbus/bus/subscribe/publisher_ends.hpp"
#include "tensorbus/bus/subscribe/receive_options.hpp"
#include "tensorbus/bus/subscribe/row_sink.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscribe/sample_cache.hpp"
#include "tensorbus/bus/subscribe/stream_end.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"
#include "tensorbus/link/trace/trace_ring.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/adaptive_spin.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// Receives the samples of a subscriber: its links, and the samples that came over them. Owned by
// its Subscriber. Thread-safe: the event loop adds and ends links under the mutex of receive().
class Receiver {
 public:
  Receiver(std::string topic, const SubscriberOptions& options,
           std::shared_ptr<link::WakePage> wake_page, std::shared_ptr<DeviceCopier> copier);

  // A function that requests leases on the memory that a link's next sample passes on; acquired()
  // gets the result. Without this function, these samples are dropped. Called under mutex_, as is
  // Stage.
  using Acquire = std::function<void(const std::shared_ptr<link::BorrowerLink>&,
                                     std::uint64_t token, tensor::Descriptor)>;
  void acquire_by(Acquire acquire) { acquire_ = std::move(acquire); }
  // A function that requests copies of tensors on devices that this process cannot use; acquired()
  // gets them, with the leases acquired before. Without this function, these samples are dropped.
  using Stage = std::function<void(const std::shared_ptr<link::BorrowerLink>&, std::uint64_t token,
                                   std::vector<OutOfReach>, AcquiredLeases)>;
  void stage_by(Stage stage) { stage_ = std::move(stage); }

  // Sets a function that is called, under mutex_, when take_rejoins() has results.
  void rejoin_by(std::function<void()> callback) { rejoin_ = std::move(callback); }
  // Sets a function that is called, under mutex_, when links are removed: connections may be idle.
  void on_links_gone(std::function<void()> callback) { links_gone_ = std::move(callback); }

  const std::string& topic() const noexcept { return topic_; }
  const SubscriberOptions& options() const noexcept { return options_; }
  std::uint32_t wake_slot() const noexcept { return sleeper_.index(); }
  // Returns the grant that this subscriber requests from its publishers.
  memory::Grant asks_for() const noexcept { return grant_for(options_.access); }

  // Waits for a sample: spins, then parks. Returns kClosed after close(), and with `end_of_stream`
  // when no sample is left and all publishers have closed. Throws Error(kOutOfMemory) if a sample
  // cannot be mapped; the next call tries again. Throws Error(kTypeMismatch) once for each
  // publisher that refused this subscriber's type (at most the last 16).
  Outcome receive(Sample& sample, const platform::StopCondition& stop) {
    Batch one{{&sample, 1}};
    return receive(one, stop);
  }
  // Returns kTimedOut if no sample is there now. Throws like receive().
  Outcome try_receive(Sample& sample) {
    Batch one{{&sample, 1}};
    return try_receive(one);
  }
  // Receives several samples. Returns kDone with at least one, and does not wait for more. An error
  // after the first sample is thrown by the next call.
  struct Batch {
    std::span<Sample> room;  // room for at least one
    std::size_t taken = 0;   // the number of samples received
    // If set, takes the samples instead of `room`, which then has room for one.
    // Error(kInvalidArgument) is thrown if the first sample does not fit a row; the next call
    // without `rows` returns that sample.
    RowSink* rows = nullptr;

    bool full() const noexcept { return rows != nullptr ? rows->full() : taken == room.size(); }
    Sample& next() const noexcept { return rows != nullptr ? room.front() : room[taken]; }
  };
  Outcome receive(Batch& batch, const platform::StopCondition& stop);
  Outcome try_receive(Batch& batch);

  // Returns true if receive() would return now, with any outcome; else re-arms the descriptor.
  bool ready();

  // Returns a descriptor to poll: readable when try_receive() may find a sample. Each try_receive()
  // that finds none re-arms it. The first call makes it and sends each publisher a notifier.
  int event_descriptor();
  // With `lazily`, the descriptor becomes readable only when half of the samples that may wait are
  // waiting, or when a set-aside sample can be tried again. For a program that also looks by itself
  // every few milliseconds.
  void notify_lazily(bool lazily);
  // Returns true if the next sample of a publisher was set aside, for example to wait for a copy
  // from a GPU.
  bool has_set_aside() const;
  // Returns true if the next sample of a publisher was set aside, or a publisher has not replied
  // yet: samples may come that are older than the received ones.
  bool may_have_older() const;
  // Ends the wait for these samples: the next try_receive() drops them as not copied.
  void refuse_set_aside(const char* why);
  // Afterwards receives only samples that were published before this call; from each later link,
  // only the samples that are in its ring when it is accepted.
  void stop_here() noexcept;
  // Returns true if a sample is left that try_receive() may return later, or if a publisher has not
  // replied yet: samples that it has published may come with its reply.
  bool has_left() const;
  // After stop_here(): counts the earlier samples that are still left as missed.
  void miss_what_is_left() noexcept;
  // Returns the number of publishers, including those that have ended and left samples.
  std::size_t links() const;
  // Signals the descriptor if a sample waits without a notification: a publisher can be stopped
  // between its entry and its notification. Called every kParkSlice. Returns false if there is no
  // descriptor.
  bool look_after_event();

  Outcome wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop);
  SubscriberStats stats() const;
  SubscriberReport report() const;
  // Ends all links; held samples stay valid. Returns false if it was closed before.
  bool close();
  bool closed() const;
  // With Device::host(): returns the samples that this subscriber did not get since the last call,
  // at most 1,024 gaps.
  std::vector<MissingSamples> take_missing();
  // From now on records the ends of publishers. As long as take_publisher_ends() would return some,
  // receive() and try_receive() return kInterrupted, and ready() returns true.
  void watch_publisher_ends();
  // Returns the ends since the last call, in their order.
  std::vector<PublisherEnd> take_publisher_ends();

  // The functions below are for the event loop only.
  void add(std::shared_ptr<link::BorrowerLink> link);
  // Between these two calls the stream cannot end, because a link will be added or refused.
  void expect_link();
  void expect_link_no_more();
  void accept(const std::shared_ptr<link::BorrowerLink>& link, const link::Accepted& accepted,
              platform::Fd segment, platform::Fd room_notifier = {});
  // Ends a link; the samples in its ring can still be received. `cut_off`: the owner ended it
  // because it blocked the publisher for too long. The publisher is then joined again when the
  // program looks for samples.
  void end(const std::shared_ptr<link::BorrowerLink>& link, bool cut_off = false);
  // Returns the publishers to join again, each once.
  std::vector<std::pair<Id, std::uint32_t>> take_rejoins();
  void acquired(const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                std::variant<AcquiredLeases, Error> result);
  // Returns true if the sample still waits for acquired().
  bool awaits_leases(const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token) const;
  // Removes a refused link. With kTypeMismatch, a later receive() throws `why`.
  void refuse(const std::shared_ptr<link::BorrowerLink>& link, Code code,
              std::string_view why) noexcept;
  // Counts a publisher that could not be joined.
  void not_joined(std::string_view why) noexcept;
  // Writes a record of each later sample into this ring; null: writes no records.
  void trace(std::shared_ptr<link::TraceRing> ring);
  // Called when a segment has come. Set-aside samples are then tried again.
  void segment_came();

 private:
  using LinkRef = std::shared_ptr<link::BorrowerLink>;

  bool let_go() TB_EXCLUDES(mutex_);
  // Holds the mutex while samples are taken, and settles the links at the end.
  class TB_SCOPED_CAPABILITY Taking {
   public:
    explicit Taking(Receiver& core) TB_ACQUIRE(core.mutex_) : core_(core), lock_(core.mutex_) {}
    ~Taking() TB_RELEASE() { core_.settle(); }
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;

   private:
    Receiver& core_;
    const platform::MutexLock lock_;
  };
  Outcome spin(Batch& batch, const platform::StopCondition& stop, std::chrono::nanoseconds most)
      TB_EXCLUDES(mutex_);
  Outcome look_for_a_while(Batch& batch) TB_EXCLUDES(mutex_);
  Outcome take(Batch& batch) TB_REQUIRES(mutex_);
  bool take_another(Batch& batch) TB_REQUIRES(mutex_);
  Outcome take_next(Batch& batch) TB_REQUIRES(mutex_);
  bool take_from(const LinkRef& link, Batch& batch) TB_REQUIRES(mutex_);
  bool take_row(link::BorrowerLink& link, const link::Entry& entry, RowSink& rows)
      TB_REQUIRES(mutex_);
  void give_to_rows(const LinkRef& link, const link::Entry& entry, Batch& batch)
      TB_REQUIRES(mutex_);
  void end_broken(link::BorrowerLink& link) noexcept TB_REQUIRES(mutex_);
  bool stream_has_ended() const noexcept TB_REQUIRES(mutex_);
  void ask_to_rejoin() noexcept TB_REQUIRES(mutex_);
  void settle_later(link::BorrowerLink& link) noexcept TB_REQUIRES(mutex_);
  void settle() noexcept TB_REQUIRES(mutex_);
  enum class Taken { kDone, kLater, kNever };
  Taken take_entry(const LinkRef& link, const link::Entry& entry, Sample& sample)
      TB_REQUIRES(mutex_);
  Taken read_entry(const LinkRef& link, const link::Entry& entry, AcquiredLeases* acquired,
                   Sample& sample) TB_REQUIRES(mutex_);
  static Taken set_aside(link::BorrowerLink& link, const link::Entry& entry) noexcept;
  Taken pin(const LinkRef& link, const link::Entry& entry, Sample& sample) TB_REQUIRES(mutex_);
  Taken drop(link::BorrowerLink& link, const link::Entry& entry, std::uint64_t& counter) noexcept
      TB_REQUIRES(mutex_);
  void count_received(link::BorrowerLink& link, const link::Entry& entry) noexcept
      TB_REQUIRES(mutex_);
  void count_gap(link::BorrowerLink& link, std::uint64_t sequence) noexcept TB_REQUIRES(mutex_);
  void count_missed_at_the_end(link::BorrowerLink& link, std::uint64_t count) noexcept
      TB_REQUIRES(mutex_);
  void count_missed(const link::BorrowerLink& link, std::uint64_t count) noexcept
      TB_REQUIRES(mutex_);
  void note_missing(const link::BorrowerLink& link, std::uint64_t end, std::string why) noexcept
      TB_REQUIRES(mutex_);
  void try_again_later(link::BorrowerLink& link, const link::Entry& entry) noexcept
      TB_REQUIRES(mutex_);
  void throw_pending_error() TB_REQUIRES(mutex_);
  void throw_mismatch() TB_REQUIRES(mutex_);
  bool anything_ready() const;
  bool would_return() const TB_REQUIRES(mutex_);
  bool arm_event() TB_REQUIRES(mutex_);
  void disarm_event() TB_REQUIRES(mutex_);
  void forget_ended_links() noexcept TB_REQUIRES(mutex_);
  // Returns how many publishers could end now, see PublisherEnds.
  std::size_t may_end() const noexcept TB_REQUIRES(mutex_) {
    return links_.size() + stream_.cut_off();
  }
  void wake_all() noexcept TB_REQUIRES(mutex_);
  std::vector<platform::Fd> notifier_for(link::BorrowerLink& link) TB_REQUIRES(mutex_);
  void drop_notifier(link::BorrowerLink& link) noexcept TB_REQUIRES(mutex_);

  const std::string topic_;
  const SubscriberOptions options_;
  platform::AdaptiveSpin spin_;
  const ReceiveOptions receiving_;
  link::Sleeper sleeper_;

  mutable platform::Mutex mutex_;
  std::vector<LinkRef> links_ TB_GUARDED_BY(mutex_);
  std::size_t turn_ TB_GUARDED_BY(mutex_) = 0;  // links take turns, so that none starves
  SampleCache spare_ TB_GUARDED_BY(mutex_);
  std::optional<PolledEvent> event_ TB_GUARDED_BY(mutex_);
  bool event_armed_ TB_GUARDED_BY(mutex_) = false;  // publishers notify event_
  bool lazily_ TB_GUARDED_BY(mutex_) = false;       // see notify_lazily()
  // True if all samples since the event was armed have caused a notification, and the event was not
  // cleared since.
  bool all_notify_ TB_GUARDED_BY(mutex_) = false;
  std::map<const link::BorrowerLink*, PendingSample> pending_ TB_GUARDED_BY(mutex_);
  std::vector<MissingSamples> missing_ TB_GUARDED_BY(mutex_);
  std::atomic<bool> has_missing_ = false;  // written under the mutex
  // Set before the first link, then constant.
  Acquire acquire_;
  Stage stage_;
  std::function<void()> links_gone_;
  std::function<void()> rejoin_;
  Pinning pinning_;  // used with the option `pin`
  // The reasons of type mismatches that no call has thrown yet.
  std::deque<std::string> mismatches_ TB_GUARDED_BY(mutex_);
  std::optional<Error> pending_error_ TB_GUARDED_BY(mutex_);  // the error that ended a batch
  // Elements of links_; empty while the mutex is free.
  std::vector<link::BorrowerLink*> to_settle_ TB_GUARDED_BY(mutex_);
  SubscriberStats stats_ TB_GUARDED_BY(mutex_);
  std::shared_ptr<link::TraceRing> trace_ TB_GUARDED_BY(mutex_);  // null: not traced
  StreamEnd stream_ TB_GUARDED_BY(mutex_);
  PublisherEnds ends_ TB_GUARDED_BY(mutex_);
  bool closed_ TB_GUARDED_BY(mutex_) = false;
  bool stopped_ TB_GUARDED_BY(mutex_) = false;  // stop_here() was called
};

}  // namespace tensorbus::bus
