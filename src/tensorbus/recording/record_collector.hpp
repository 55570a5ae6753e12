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
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/poller.hpp"
#include "tensorbus/recording/record/name_pattern.hpp"
#include "tensorbus/recording/record/record_buffer.hpp"
#include "tensorbus/recording/record/record_clock.hpp"

namespace tensorbus::bus {

// Which topics are recorded, and how.
struct CollectorOptions {
  std::vector<std::string> topics{};
  bool all = false;       // every topic that has a publisher
  std::string pattern{};  // every topic whose whole name matches this (NamePattern); empty: none
  bool reliable = false;
  std::uint32_t depth = 0;
};

// Receives the samples of the recorded topics into a buffer, and finds what is missing. Tensors of
// GPUs come in host memory: their owner copies them. Made by one thread, which may be another one
// than that which runs it.
class RecordCollector {
 public:
  // Subscribes to the topics. Throws Error(kInvalidArgument) for a name or a pattern that is none.
  RecordCollector(CollectorOptions options, Participant participant, RecordBuffer& buffer);
  ~RecordCollector();

  // Receives until it is ended, or the buffer is stopped. However it ends, no publisher waits for
  // it any more, and what is lost is counted and told. Throws as Subscriber::receive(), but that a
  // shortage of descriptors or memory while it looks for topics or samples is waited out: of
  // samples kMostShortage, or until kCopying after its end.
  void run();
  // Ends run(), which first takes what was published before this call, and nothing that came after
  // it. Any thread; a second call changes nothing.
  void end() noexcept;
  // Waits until run() has put what was there into the buffer, or kMostLook, as while the buffer is
  // full. Any thread.
  void look(const platform::StopCondition& stop);

  const RecordClock& clock() const noexcept { return clock_; }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t unwritable() const noexcept { return unwritable_.load(std::memory_order_relaxed); }
  std::uint32_t topics() const noexcept { return topics_.load(std::memory_order_relaxed); }

 private:
  struct Known;
  struct Source;
  struct Topic;
  // A sample that was received, or those that are missing, and when it came.
  struct Collected {
    Source* source = nullptr;
    std::uint64_t time = 0;
    Sample sample{};
    std::optional<MissingSamples> missing{};
  };

  template <typename Work>
  bool in_spite_of_shortage(Work work);
  void require_passing_shortage(Topic& topic);
  std::vector<PublisherInfo> publishers_now();
  void take_turn(std::chrono::milliseconds most);
  bool wait_for_samples(std::chrono::milliseconds at_most);
  bool poll(std::chrono::milliseconds most);
  void look_at_topics();
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
  void collect(Topic& topic, Sample&& sample);
  void collect_missing(Topic& topic);
  void put_collected(std::uint64_t until = UINT64_MAX);
  void note_seen(Source& source, std::uint64_t sequence);
  void put(Source& source, Sample&& sample, std::uint64_t time);
  void note_missing(Source& source, MissingSamples&& missing);
  void tell_of_last_lost();
  Source& source_of(const PublisherName& name, const std::string& topic, std::uint64_t first);
  std::shared_ptr<RecordedPublisher> known_publisher(const PublisherName& name,
                                                     const std::string& topic);
  void count_lost(std::uint64_t count) noexcept {
    lost_.fetch_add(count, std::memory_order_relaxed);  // only its value matters
  }

  const CollectorOptions options_;
  std::optional<NamePattern> pattern_;  // empty: none
  const Participant participant_;
  const RecordClock clock_;
  RecordBuffer& buffer_;
  const platform::Fd told_;  // an event: to end, or to look
  std::atomic<bool> ended_ = false;
  std::atomic<std::uint32_t> looks_wanted_ = 0;
  std::atomic<std::uint32_t> looks_ = 0;  // a futex
  platform::Poller poller_;
  std::map<std::string, std::unique_ptr<Topic>> subscribed_;
  // Of the thread of run(), which adds to it under the mutex of end().
  std::vector<Topic*> by_tag_;
  platform::Mutex ending_;
  std::map<PublisherName, Known> known_;  // of recorded topics
  std::map<PublisherName, Source> sources_;
  // Of all topics, until put_collected() puts them into the buffer, in the order of their times.
  std::vector<Collected> collected_;
  std::uint64_t collected_bytes_ = 0;
  platform::Clock::time_point next_look_{};    // at all topics
  platform::Clock::time_point next_search_{};  // of the domain
  platform::Clock::time_point last_full_look_{};
  std::uint64_t complete_until_ = 0;  // all that came before is collected: when that look began
  std::uint64_t last_time_ = 0;
  std::exception_ptr shortage_{};  // in_spite_of_shortage() has met it since the last turn
  bool told_of_shortage_ = false;  // it has logged one
  bool is_held_up_ = false;        // a topic waits for a snapshot that is being written
  bool has_taken_ = false;         // a sample since the last turn
  bool finds_topics_ = true;       // false: those that are new now came after its end
  std::atomic<std::uint64_t> lost_ = 0;
  std::atomic<std::uint64_t> unwritable_ = 0;  // among the lost: not copied from a GPU
  std::atomic<std::uint32_t> topics_ = 0;
};

}  // namespace tensorbus::bus
