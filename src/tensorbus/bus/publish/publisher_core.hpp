#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/bus/copy/copy_tuner.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/ring/owner_link.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// A publisher as its participant sees it: links, history, counters, and the records of what was
// issued. Thread-safe. The event loop adopts and ends links under the same mutex as publish().
class PublisherCore {
 public:
  PublisherCore(std::string topic, std::uint32_t number, const PublisherOptions& options,
                std::shared_ptr<memory::Arena> arena, std::shared_ptr<link::WakePage> wake_page);
  ~PublisherCore() { close(); }
  PublisherCore(const PublisherCore&) = delete;
  PublisherCore& operator=(const PublisherCore&) = delete;

  const std::string& topic() const noexcept { return topic_; }
  std::uint32_t number() const noexcept { return number_; }
  const PublisherOptions& options() const noexcept { return options_; }
  std::uint32_t wake_slot() const noexcept { return sleeper_.index(); }
  // The memory that is published here.
  memory::Grant most_granted() const noexcept {
    return options_.shared ? memory::Grant::kWrite : memory::Grant::kRead;
  }
  // The part of it that is host memory, of no file.
  memory::PoolId pool() const noexcept { return pool_; }

  // All or nothing: unless the outcome is kDone, nobody gets the sample, and the caller has it
  // still.
  Published publish(OutgoingSample& sample, const platform::StopCondition& stop);

  Outcome wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop);
  std::uint32_t subscribers() const;
  PublisherStats stats();

  // Takes back what subscribers returned.
  void drain();
  // The same, unless somebody publishes, who does it.
  void drain_if_idle();
  // No more samples; returns false if it was closed before. Links drain.
  bool close();
  bool closed() const noexcept;

  // By the event loop.
  link::LinkLimits limits_of(link::LinkLimits asked) const noexcept;
  struct Adopted {
    std::shared_ptr<link::OwnerLink> link;
    std::uint64_t next_sequence = 0;
  };
  // Tells the borrower about its link, before anybody here can count on it: what is published from
  // then on arrives even if this process dies at once.
  using Announce = std::function<void(const Adopted&)>;
  // Makes a link and puts the history into it, all before the next publish() can run. Empty:
  // closed. Should `announce` throw, there is no link.
  Adopted adopt(link::LinkLimits limits, link::Waker subscriber,
                std::shared_ptr<link::SegmentSender> segments, memory::Grant grant,
                const Announce& announce);
  void set_notifier(const std::shared_ptr<link::OwnerLink>& link, platform::Fd notifier);
  // UNSUBSCRIBE, or a death: nothing new; what was not popped comes back. True: more is out.
  bool stop_link(const std::shared_ptr<link::OwnerLink>& link);
  // DONE, or the end of a lineage: all comes back.
  void end_link(const std::shared_ptr<link::OwnerLink>& link);
  // What is out on a link under this token; null if nothing is.
  link::PublishedRef issued(const link::OwnerLink& link, std::uint64_t token) const;
  // Is told when a link gets nothing more because its borrower made no sense. Under our mutex.
  void on_link_broken(std::function<void()> told) { link_broken_ = std::move(told); }
  bool gets_nothing_more(const link::OwnerLink& link) const;

  // How what is published here, and lies in no memory of the bus, is copied.
  CopyTuner& copies() noexcept { return copies_; }

 private:
  using Links = std::vector<std::shared_ptr<link::OwnerLink>>;

  bool all_have_room() TB_REQUIRES(mutex_);
  bool stop_broken_links() TB_REQUIRES(mutex_);
  Outcome wait_for_room(const platform::StopCondition& stop) TB_REQUIRES(mutex_);
  Published push_to_all(OutgoingSample& sample) TB_REQUIRES(mutex_);
  std::chrono::nanoseconds longest_park() const TB_REQUIRES(mutex_);
  void drain_links() TB_REQUIRES(mutex_);
  void remember(const link::Entry& entry, const link::PublishedRef& sample) TB_REQUIRES(mutex_);

  const std::string topic_;
  const std::uint32_t number_;
  const PublisherOptions options_;
  const std::shared_ptr<memory::Arena> arena_;
  std::function<void()> link_broken_;
  link::ByteCounter in_flight_;
  CopyTuner copies_;
  link::Sleeper sleeper_;  // parks in publish() and wait_for_subscribers()

  struct Kept {
    link::Entry entry;
    link::PublishedRef sample;
  };
  mutable platform::Mutex mutex_;
  Links links_ TB_GUARDED_BY(mutex_);
  // Get nothing new, still hold leases; has room for all links.
  Links stopped_ TB_GUARDED_BY(mutex_);
  std::deque<Kept> history_ TB_GUARDED_BY(mutex_);
  std::uint64_t next_sequence_ TB_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> closed_{false};  // written under mutex_; relaxed, publish() looks again there
  PublisherStats stats_ TB_GUARDED_BY(mutex_);
  const memory::PoolId pool_;  // closed with us: after all else here that can throw
};

}  // namespace tensorbus::bus
