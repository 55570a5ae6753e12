#pragma once

// What everybody in the storm writes and reads: samples whose every byte follows from who wrote
// them and from their sequence, so that whoever has one can tell whether it is what was sent.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscriber.hpp"

namespace tensorbus::kills {

using namespace std::chrono_literals;
using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t end) { return random() % end; }
inline bool chance(Random& random, int percent) { return below(random, 100) < unsigned(percent); }

struct Topic {
  const char* name;
  PublisherOptions options;
};
// Everybody, survivor or victim, publishes and subscribes on these.
inline const std::array<Topic, 4> kTopics = {
    Topic{"drops", {.depth = 2}},
    Topic{"reliable", {.depth = 4, .reliable = true, .timeout = 200ms}},
    Topic{"history", {.depth = 8, .history = 4}}, Topic{"shared", {.depth = 4, .shared = true}}};

enum class Form : std::uint8_t {
  kBare,     // a loan and no fields: its descriptor rides in the entry
  kTiny,     // fields alone
  kLoaned,   // a loan with fields
  kCopied,   // memory that is not the bus's
  kSeveral,  // loans and copies, one of them empty
  kBig,      // takes a segment of its own
  kSettled,  // always of one size: what the books say after it is always the same
};
Form any_form(Random& random);

// What was seen by all threads of a process; the first complaint is kept, each is printed.
class Tally {
 public:
  std::atomic<std::uint64_t> published{0}, timed_out{0}, checked{0}, checked_again{0}, wrong{0};

  void complain(const std::string& what);
  std::string first_complaint() const;

 private:
  mutable std::mutex mutex_;
  std::string first_;
};

// A publisher. Of one thread.
class Writer {
 public:
  Writer(const Topic& topic, const bus::ParticipantRef& participant, Random& random, Tally& tally,
         std::chrono::nanoseconds timeout = 200ms);

  const Topic& topic() const noexcept { return *topic_; }
  std::uint64_t name() const noexcept { return name_; }
  bus::Publisher& publisher() noexcept { return publisher_; }
  // The sequence of the next sample.
  std::uint64_t next() const noexcept { return next_.load(std::memory_order_acquire); }

  Outcome write(Form form, std::chrono::nanoseconds timeout);
  Outcome write(Form form) { return write(form, timeout_); }

 private:
  Published send(Form form, std::chrono::nanoseconds timeout);

  const Topic* topic_;
  std::uint64_t name_;
  std::chrono::nanoseconds timeout_;
  Tally* tally_;
  bus::Publisher publisher_;
  std::atomic<std::uint64_t> next_{0};
};

// A subscriber and the samples that it holds. Of one thread, but for last() and forget().
class Reader {
 public:
  Reader(const Topic& topic, const SubscriberOptions& options,
         const bus::ParticipantRef& participant, Tally& tally);
  ~Reader();  // looks at what it holds once more

  const Topic& topic() const noexcept { return *topic_; }
  bus::Subscriber& subscriber() noexcept { return subscriber_; }
  std::size_t held() const noexcept { return held_.size(); }

  // The same as the subscriber's. A sample that comes is checked and held.
  Outcome receive(std::chrono::nanoseconds timeout);
  Outcome try_receive();
  // Checks the oldest ones that are held once more and lets go of them, down to so many.
  void release_until(std::size_t count);

  // The last sequence of every writer that was heard since forget().
  std::map<std::uint64_t, std::uint64_t> last() const;
  void forget();

 private:
  struct Heard {
    std::uint64_t writer = 0;
    std::uint64_t last = 0;
  };
  Outcome accept(Outcome outcome, bus::Sample& sample);
  void check_order(const bus::Sample& sample, std::uint64_t writer);
  void check(const bus::Sample& sample, bool scribbled);
  void scribble(const bus::Sample& sample) const;

  const Topic* topic_;
  const Access access_;
  Tally* tally_;
  std::deque<bus::Sample> held_;
  bus::Subscriber subscriber_;
  mutable std::mutex mutex_;
  std::map<std::pair<Id, std::uint32_t>, Heard> heard_;
};

}  // namespace tensorbus::kills
