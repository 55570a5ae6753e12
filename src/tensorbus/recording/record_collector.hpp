#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/subscribe/missing_samples.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/poller.hpp"
#include "tensorbus/recording/record/name_pattern.hpp"
#include "tensorbus/recording/record/record_buffer.hpp"
#include "tensorbus/recording/record/record_clock.hpp"

namespace tensorbus::recording {

// The topics to record, and how to receive them.
struct CollectorOptions {
  std::vector<std::string> topics{};
  bool all = false;       // every topic that has a publisher
  std::string pattern{};  // regular expression (NamePattern) for whole names of topics; empty: none
  bool reliable = false;
  std::uint32_t depth = 0;
};

// Receives the samples of the recorded topics into a buffer, and finds missing ones. GPU tensors
// arrive in host memory, copied by their owner. The thread that calls run() need not be the thread
// that made it.
class RecordCollector {
 public:
  // Subscribes to the topics. Throws Error(kInvalidArgument) for an invalid name or pattern.
  RecordCollector(CollectorOptions options, bus::ParticipantRef participant, RecordBuffer& buffer);
  ~RecordCollector();

  // Receives until end(), or until the buffer is stopped. When it returns, no publisher waits for
  // it, and lost samples are counted and reported. Throws as Subscriber::receive() does, but tries
  // again if descriptors or memory are short: for topics without a limit, for samples up to
  // kMaxShortage, or kCopying after end().
  void run();
  // Ends run(). It first takes the samples published before this call, and no later ones. May be
  // called in any thread; a second call has no effect.
  void end() noexcept;
  // Waits until run() has put all present samples into the buffer, but at most kMaxLook, e.g. if
  // the buffer is full. May be called in any thread.
  void look(const platform::StopCondition& stop);

  const RecordClock& clock() const noexcept { return clock_; }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t unwritable() const noexcept { return unwritable_.load(std::memory_order_relaxed); }
  std::uint32_t topics() const noexcept { return topics_.load(std::memory_order_relaxed); }

 private:
  struct Known;
  struct Source;
  struct Topic;
  // A received sample, or missing samples, and their time.
  struct Collected {
    Source* source = nullptr;
    std::uint64_t time = 0;
    bus::Sample sample{};
    std::optional<bus::MissingSamples> missing{};
  };

  template <typename Work>
  bool in_spite_of_shortage(Work work);
  void require_passing_shortage(Topic& topic);
  std::vector<PublisherInfo> publishers_now();
  void take_turn(std::chrono::milliseconds most);
  bool wait_for_samples(std::chrono::milliseconds at_most);
  bool poll(std::chrono::milliseconds most);
  void look_at_topics();
  bool awaits_older(bool may_come);
  void look_if_wanted();
  void look_around();
  void subscribe(const std::string& name);
  bool is_wanted(const std::string& topic) const;
  void take_last();
  void give_up_last();
  void unsubscribe();
  void wait_for_connections(std::chrono::milliseconds most);
  std::size_t waiting_in(const Topic& topic) const;
  bool drain(Topic& topic, std::size_t most);
  void collect(Topic& topic, bus::Sample&& sample);
  void collect_missing(Topic& topic);
  void put_collected(std::uint64_t until = UINT64_MAX);
  void note_seen(Source& source, std::uint64_t sequence);
  void put(Source& source, bus::Sample&& sample, std::uint64_t time);
  void note_missing(Source& source, bus::MissingSamples&& missing);
  void report_last_lost();
  Source& source_of(const bus::PublisherName& name, const std::string& topic, std::uint64_t first);
  std::shared_ptr<RecordedPublisher> known_publisher(const bus::PublisherName& name,
                                                     const std::string& topic);
  void count_lost(std::uint64_t count) noexcept {
    lost_.fetch_add(count, std::memory_order_relaxed);  // only its value matters
  }

  const CollectorOptions options_;
  std::optional<NamePattern> pattern_;  // empty: none
  const bus::ParticipantRef participant_;
  RecordClock clock_;
  RecordBuffer& buffer_;
  const platform::Fd wake_event_;  // an event: end() or look() was called
  std::atomic<bool> ended_ = false;
  std::atomic<std::uint32_t> looks_wanted_ = 0;
  std::atomic<std::uint32_t> looks_ = 0;  // a futex
  platform::Poller poller_;
  std::map<std::string, std::unique_ptr<Topic>> subscribed_;
  // Used by the thread of run(), which appends with the mutex of end() held.
  std::vector<Topic*> by_tag_;
  platform::Mutex ending_;
  std::map<bus::PublisherName, Known> known_;  // of recorded topics
  std::map<bus::PublisherName, Source> sources_;
  // The collected samples of all topics. put_collected() puts them into the buffer in the order of
  // their times.
  std::vector<Collected> collected_;
  std::uint64_t collected_bytes_ = 0;
  platform::Clock::time_point next_look_{};    // at all topics
  platform::Clock::time_point next_search_{};  // of the domain
  platform::Clock::time_point last_full_look_{};
  std::uint64_t complete_until_ = 0;                          // all earlier samples are collected
  std::optional<platform::Clock::time_point> older_since_{};  // since then older samples may come
  std::uint64_t last_time_ = 0;
  std::exception_ptr shortage_{};  // caught by in_spite_of_shortage() since the last turn
  bool shortage_logged_ = false;   // a shortage was logged
  bool is_held_up_ = false;        // a topic waits until a snapshot is written
  bool has_taken_ = false;         // a sample was taken since the last turn
  bool finds_topics_ = true;       // false after end()
  std::atomic<std::uint64_t> lost_ = 0;
  std::atomic<std::uint64_t> unwritable_ = 0;  // of these: not copied from a GPU
  std::atomic<std::uint32_t> topics_ = 0;
};

}  // namespace tensorbus::recording
