#include "tensorbus/recording/record_collector.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>
#include <utility>

#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/log.hpp"
#include "tensorbus/recording/record/look_pace.hpp"

namespace tensorbus::recording {
namespace {

constexpr std::uint64_t kWakeTag = 0;
constexpr std::uint64_t kDomainTag = 1;
constexpr std::uint64_t kFirstTopicTag = 2;

constexpr std::size_t kMaxInTurn = 64;  // samples of a topic that are taken in one turn
// Limit for samples outside of the buffer, which wait to be sorted by time, in bytes.
constexpr std::uint64_t kMaxCollected = std::uint64_t{4} << 20;
constexpr std::uint64_t kOfSample = 512;  // approximate cost of keeping a sample, in bytes
constexpr std::size_t kMaxKnown = 1 << 16;
// Each held sample costs a slot in the links. Small samples reach this limit if the disk is slow.
constexpr std::uint32_t kMaxHeld = 16'384;
// Time limits. kConnecting: at the end, for connecting a publisher, since it was first seen.
// kCopying: at the end, for copies from GPUs. kOnTheWay: for a segment, or a publisher's reply,
// that has not arrived.
constexpr std::chrono::milliseconds kConnecting{5000};
constexpr std::chrono::milliseconds kCopying{5000};
constexpr const char* kNotInTime = "it was not copied within 5 s after the recorder was closed";
constexpr std::chrono::milliseconds kMaxShortage{5000};  // until a sample of the topic is taken
constexpr std::chrono::milliseconds kOnTheWay{100};
constexpr std::chrono::milliseconds kFullLook{1};
constexpr std::chrono::milliseconds kMaxLook{200};  // limit for look()
constexpr std::chrono::milliseconds kLook{1000};    // between searches of an unchanged domain

}  // namespace

// A publisher seen in the domain.
struct RecordCollector::Known {
  std::shared_ptr<RecordedPublisher> publisher{};
  platform::Clock::time_point seen{};  // first
};

struct RecordCollector::Source {
  std::shared_ptr<RecordedPublisher> publisher{};
  std::uint64_t next = 0;  // the next sequence to write
  std::uint64_t seen = 0;  // the sequence after the last one received
  std::string why_lost{};  // why the last missing sample is missing, if known
  std::uint64_t time = 0;  // of the last sample received
};

struct RecordCollector::Topic {
  std::string name;
  bus::Subscriber subscriber;
  std::uint64_t taken = 0;                                   // samples received, or not copied
  bool has_more = false;                                     // it may have more samples
  std::optional<platform::Clock::time_point> short_since{};  // since then no sample could be taken
  LookPace pace;
};

RecordCollector::RecordCollector(CollectorOptions options, bus::ParticipantRef participant,
                                 RecordBuffer& buffer)
    : options_(std::move(options)),
      participant_(std::move(participant)),
      buffer_(buffer),
      wake_event_(platform::make_event()) {
  if (!options_.pattern.empty()) pattern_.emplace(options_.pattern);
  poller_.add(wake_event_.get(), kWakeTag);
  poller_.add(participant_->domain_descriptor(), kDomainTag);
  for (const std::string& topic : options_.topics) subscribe(topic);
  look_around();
}

RecordCollector::~RecordCollector() = default;

void RecordCollector::end() noexcept {
  {
    const platform::MutexLock lock(ending_);
    if (ended_.exchange(true, std::memory_order_release)) return;  // pairs with run()
    for (Topic* const topic : by_tag_) topic->subscriber.receiver().stop_here();
  }
  platform::signal_event(wake_event_.get());
}

void RecordCollector::look(const platform::StopCondition& stop) {
  const std::uint32_t wanted = looks_wanted_.fetch_add(1, std::memory_order_acq_rel) + 1;
  platform::signal_event(wake_event_.get());
  std::uint32_t seen = 0;
  const auto has_looked = [&] {
    seen = looks_.load(std::memory_order_acquire);  // pairs with look_if_wanted()
    return static_cast<std::int32_t>(seen - wanted) >= 0;
  };
  const auto most = std::min<std::chrono::nanoseconds>(kMaxLook, stop.timeout());
  (void)platform::StopCondition::ignoring_signals(most).wait(
      has_looked,
      [&](std::chrono::nanoseconds left) { return platform::futex_wait(looks_, seen, left); });
}

// If look() was called, takes the samples that are in the queues now.
void RecordCollector::look_if_wanted() {
  for (;;) {  // because taking samples may clear the event of another look()
    const std::uint32_t wanted = looks_wanted_.load(std::memory_order_acquire);
    if (looks_.load(std::memory_order_relaxed) == wanted) return;
    wait_for_connections(kMaxLook / 2);
    for (std::size_t i = 0; i < by_tag_.size(); ++i)  // collecting may add a topic
      by_tag_[i]->has_more |= drain(*by_tag_[i], waiting_in(*by_tag_[i]));
    put_collected();
    looks_.store(wanted, std::memory_order_release);  // pairs with look()
    platform::futex_wake_all(looks_);
  }
}

void RecordCollector::subscribe(const std::string& name) {
  if (subscribed_.contains(name)) return;
  const SubscriberOptions options{.depth = options_.depth,
                                  .max_held = kMaxHeld,
                                  .reliable = options_.reliable,
                                  .device = Device::host()};
  auto topic =
      std::make_unique<Topic>(Topic{.name = name,
                                    .subscriber = bus::Subscriber(name, options, participant_),
                                    .pace = LookPace(clock_.now())});
  poller_.add(topic->subscriber.event_descriptor(), kFirstTopicTag + by_tag_.size());
  topic->has_more = true;
  const platform::MutexLock lock(ending_);
  by_tag_.reserve(by_tag_.size() + 1);
  by_tag_.push_back(subscribed_.emplace(name, std::move(topic)).first->second.get());
  if (ended_.load(std::memory_order_relaxed)) by_tag_.back()->subscriber.receiver().stop_here();
  topics_.store(static_cast<std::uint32_t>(by_tag_.size()), std::memory_order_relaxed);
}

bool RecordCollector::is_wanted(const std::string& topic) const {
  return options_.all || (pattern_ && pattern_->matches(topic));
}

// Subscribes to new topics, and stores the descriptions of publishers, because a publisher that
// ends before its first sample is taken cannot be described later.
void RecordCollector::look_around() {
  if (known_.size() > kMaxKnown) known_.clear();
  for (const PublisherInfo& info : publishers_now()) {
    if (finds_topics_ && is_wanted(info.topic))
      in_spite_of_shortage([&] { subscribe(info.topic); });
    if (!subscribed_.contains(info.topic)) continue;
    const bus::PublisherName name{info.participant, info.number};
    if (known_.contains(name)) continue;
    known_[name] = {recorded_publisher(info), platform::Clock::now()};
  }
}

// Runs `work`. Returns false if descriptors or memory are short: the caller tries again later.
template <typename Work>
bool RecordCollector::in_spite_of_shortage(Work work) {
  try {
    platform::with_memory_errors(work);
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
    shortage_ = std::current_exception();
    if (std::exchange(shortage_logged_, true)) return false;
    std::array<char, 512> text{};  // there may be no memory for a longer text
    (void)std::snprintf(text.data(), text.size(), "recorder: %s (trying again)", error.what());
    platform::log(platform::LogLevel::kWarning, text.data());
    return false;
  }
}

// Returns no publishers if they cannot be listed now.
std::vector<PublisherInfo> RecordCollector::publishers_now() {
  std::vector<PublisherInfo> publishers;
  in_spite_of_shortage([&] { publishers = bus::list_publishers(participant_); });
  return publishers;
}

void RecordCollector::run() {
  try {
    while (!buffer_.stopped() && !ended_.load(std::memory_order_acquire)) {  // pairs with end()
      take_turn(kLook);
      look_if_wanted();
    }
    if (!buffer_.stopped()) take_last();
  } catch (...) {
    unsubscribe();
    throw;
  }
  unsubscribe();
}

// Ends all subscriptions, so that publishers do not wait. Puts received samples into the buffer, or
// counts them as lost.
void RecordCollector::unsubscribe() {
  for (Topic* const topic : by_tag_) {
    topic->subscriber.receiver().miss_what_is_left();
    collect_missing(*topic);
    topic->subscriber.close();
  }
  put_collected();
  report_last_lost();
}

// Takes new samples; waits for them at most this long.
void RecordCollector::take_turn(std::chrono::milliseconds most) {
  // The descriptor of a topic whose samples cannot be taken may stay readable.
  const bool is_stuck = std::exchange(shortage_, nullptr) || std::exchange(is_held_up_, false);
  if (!std::exchange(has_taken_, false) && is_stuck) std::this_thread::sleep_for(LookPace::kPeriod);
  const bool changed = wait_for_samples(most);
  buffer_.expire(clock_.now());
  const auto now = platform::Clock::now();
  if (changed || now >= next_search_) {
    look_around();
    next_search_ = now + kLook;
  }
  look_at_topics();
}

bool RecordCollector::poll(std::chrono::milliseconds most) {
  bool changed = false;
  for (const std::uint64_t tag : poller_.wait(most)) {
    if (tag == kWakeTag) platform::clear_event(wake_event_.get());
    if (tag == kDomainTag) participant_->clear_domain_descriptor();
    if (tag >= kFirstTopicTag) by_tag_[tag - kFirstTopicTag]->has_more = true;
    changed |= tag == kDomainTag;
  }
  return changed;
}

// Takes samples and puts them into the buffer in the order of their times. A sample that arrives
// after a look at all topics (`all`) has begun waits for the next one, because another topic may
// have an older sample. Between these looks, takes samples only of topics that may have some. A
// topic that wakes the recorder, and has not done so when the look begins, has no older samples.
void RecordCollector::look_at_topics() {
  const auto now = platform::Clock::now();
  const bool all = by_tag_.size() == 1 || now - last_full_look_ >= kFullLook;
  const std::uint64_t begun = clock_.now();
  if (all && by_tag_.size() > 1 && poll(std::chrono::milliseconds(0))) next_search_ = now;
  bool older_may_come = false;
  for (std::size_t i = 0; i < by_tag_.size(); ++i) {
    Topic& topic = *by_tag_[i];
    // Asked first: a publisher that replies during the drain may have published before.
    older_may_come = older_may_come || topic.subscriber.receiver().may_have_older();
    if (topic.has_more || (all && topic.pace.lazy())) topic.has_more = drain(topic, kMaxInTurn);
    older_may_come = older_may_come || topic.subscriber.receiver().may_have_older();
  }
  if (all) {
    last_full_look_ = now;
    if (!awaits_older(older_may_come)) complete_until_ = begun;
  }
  put_collected(complete_until_);
}

// Returns true if collected samples have to wait for older ones, which takes at most kOnTheWay: a
// publisher may be stopped, and a copy from a GPU takes time.
bool RecordCollector::awaits_older(bool may_come) {
  if (!may_come) {
    older_since_.reset();
    return false;
  }
  if (!older_since_) older_since_ = last_full_look_;
  return last_full_look_ - *older_since_ < kOnTheWay;
}

// Finds topics that may have samples. Returns true if publishers came or went.
bool RecordCollector::wait_for_samples(std::chrono::milliseconds at_most) {
  const bool more = std::ranges::any_of(by_tag_, [](Topic* one) { return one->has_more; });
  const auto now = platform::Clock::now();
  bool at_pace = false;  // some topics are polled
  for (Topic* const topic : by_tag_) {
    if (topic->pace.changes(now)) topic->subscriber.receiver().notify_lazily(topic->pace.lazy());
    at_pace = at_pace || topic->pace.lazy();
  }
  auto until = at_pace ? std::min(next_look_, next_search_) : next_search_;
  if (!collected_.empty()) until = std::min(until, last_full_look_ + kFullLook);
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(std::max(until - now, {}));
  const bool changed = poll(more ? std::chrono::milliseconds(0) : std::min(most, at_most));
  if (const auto then = platform::Clock::now(); at_pace && then >= next_look_) {
    for (Topic* const topic : by_tag_) topic->has_more |= topic->pace.lazy();
    next_look_ = then + LookPace::kPeriod;
  }
  return changed;
}

// Takes the samples published before end(). Looks several times, because a sample may wait for a
// segment that has not arrived.
void RecordCollector::take_last() {
  wait_for_connections(kConnecting);
  poller_.remove(wake_event_.get());
  poller_.remove(participant_->domain_descriptor());
  for (Topic* const topic : by_tag_) topic->subscriber.receiver().notify_lazily(false);
  const platform::Deadline copies_until(kCopying);
  for (bool more = true; more && !buffer_.stopped();) {
    has_taken_ = false;
    for (Topic* const topic : by_tag_) (void)drain(*topic, waiting_in(*topic));
    put_collected();
    if (std::ranges::none_of(by_tag_,
                             [](Topic* one) { return one->subscriber.receiver().has_left(); }))
      return;
    const bool hurries = copies_until.passed();
    if (shortage_ && hurries) return give_up_last();
    more = has_taken_;
    if (std::exchange(shortage_, nullptr) || std::exchange(is_held_up_, false)) {
      std::this_thread::sleep_for(LookPace::kPeriod);
      more = true;
    }
    if (!more && !hurries) more = !poller_.wait(kOnTheWay).empty();
    for (Topic* const topic : by_tag_) {
      if (!topic->subscriber.receiver().has_set_aside()) continue;
      more = true;  // a copy from a GPU takes time
      if (hurries) topic->subscriber.receiver().refuse_set_aside(kNotInTime);
    }
  }
}

// Counts the samples that wait for a copy as lost. Throws the shortage that makes the recording
// incomplete.
void RecordCollector::give_up_last() {
  const std::exception_ptr shortage = shortage_;
  for (Topic* const topic : by_tag_) {
    topic->subscriber.receiver().refuse_set_aside(kNotInTime);
    (void)drain(*topic, waiting_in(*topic));
  }
  std::rethrow_exception(shortage);
}

// Waits until publishers that were found recently are linked, and records topics during the wait: a
// publisher that has found the recorder relies on it. Does not wait for a publisher that was found
// more than kConnecting ago, which may be stopped.
void RecordCollector::wait_for_connections(std::chrono::milliseconds most) {
  look_around();
  if (ended_.load(std::memory_order_relaxed)) finds_topics_ = false;
  const auto now = platform::Clock::now();
  auto last = now;
  struct Count {
    std::size_t all = 0;
    std::size_t fresh = 0;
  };
  std::map<std::string, Count> publishers;
  for (const PublisherInfo& info : publishers_now()) {
    Count& count = publishers[info.topic];
    ++count.all;
    const auto known = known_.find({info.participant, info.number});
    if (known == known_.end() || known->second.seen + kConnecting <= now) continue;
    ++count.fresh;
    last = std::max(last, known->second.seen + kConnecting);
  }
  std::vector<std::pair<Topic*, std::size_t>> awaited;  // topics and their expected publishers
  for (Topic* const topic : by_tag_) {
    const Count count = publishers[topic->name];
    if (count.fresh == 0) continue;
    const std::size_t linked = topic->subscriber.stats().publishers;
    awaited.emplace_back(topic, std::min(count.all, linked + count.fresh));
  }
  const platform::Deadline until(std::min<std::chrono::nanoseconds>(last - now, most));
  for (;;) {
    std::erase_if(awaited, [](const auto& one) {
      return one.first->subscriber.stats().publishers >= one.second;
    });
    if (awaited.empty() || until.passed() || buffer_.stopped()) return;
    take_turn(std::chrono::ceil<std::chrono::milliseconds>(until.remaining(kOnTheWay)));
  }
}

// Returns how many samples can wait in the queues of the topic.
std::size_t RecordCollector::waiting_in(const Topic& topic) const {
  return std::max<std::size_t>(topic.subscriber.receiver().links(), 1) *
         std::max<std::size_t>(options_.depth, 8);
}

// Ends recording if no sample of the topic could be taken for kMaxShortage: a sample that can
// never be taken would block its publisher forever.
void RecordCollector::require_passing_shortage(Topic& topic) {
  const auto now = platform::Clock::now();
  if (!topic.short_since) topic.short_since = now;
  if (ended_.load(std::memory_order_relaxed)) return;  // take_last() gives up then
  if (now - *topic.short_since >= kMaxShortage) std::rethrow_exception(shortage_);
}

// Takes at most `most` samples. Returns true if there may be more.
bool RecordCollector::drain(Topic& topic, std::size_t most) {
  const bool older_may_come = topic.subscriber.receiver().may_have_older();
  for (std::size_t i = 0; i < most && !buffer_.stopped(); ++i) {
    const std::uint64_t releases = buffer_.releases();
    const std::uint64_t now = clock_.now();
    bus::Sample sample;
    Outcome outcome{};
    if (!in_spite_of_shortage([&] { outcome = topic.subscriber.try_receive(sample); })) {
      require_passing_shortage(topic);
      return true;
    }
    topic.short_since.reset();
    collect_missing(topic);
    if (outcome == Outcome::kHoldLimit) {
      put_collected();
      if (buffer_.wait_for_release(releases, topic.name) != releases) continue;
      is_held_up_ = true;
      return true;
    }
    if (outcome != Outcome::kDone) {
      if (!older_may_come && !topic.subscriber.receiver().may_have_older())
        topic.pace.found_nothing(now);
      return false;
    }
    ++topic.taken;
    has_taken_ = true;
    collect(topic, std::move(sample));
  }
  return true;
}

void RecordCollector::collect(Topic& topic, bus::Sample&& sample) {
  const SampleHeader& header = sample.header();
  const bus::PublisherName name{header.publisher, header.publisher_number};
  Source& source = source_of(name, topic.name, header.sequence);
  const std::uint64_t published = clock_.at_wall_time(header.timestamp_ns);
  source.time = std::max(source.time, topic.pace.came_at(published, clock_.now()));
  collected_bytes_ += bytes_of(sample);
  collected_.push_back({.source = &source, .time = source.time, .sample = std::move(sample)});
  if (collected_bytes_ >= kMaxCollected) put_collected();
}

// Collects the samples missing before the last one received, or at the end of a publisher.
void RecordCollector::collect_missing(Topic& topic) {
  for (bus::MissingSamples& one : topic.subscriber.receiver().take_missing()) {
    if (!one.why.empty()) ++topic.taken;  // the last of them was in the queue
    Source& source = source_of(one.publisher, topic.name, one.first);
    collected_.push_back({.source = &source, .time = source.time, .missing = std::move(one)});
  }
}

// Puts collected samples with times up to `until` into the buffer.
void RecordCollector::put_collected(std::uint64_t until) {
  std::ranges::stable_sort(collected_, {}, &Collected::time);
  const auto end = std::ranges::upper_bound(collected_, until, {}, &Collected::time);
  for (auto one = collected_.begin(); one != end; ++one) {
    if (one->missing)
      note_missing(*one->source, std::move(*one->missing));
    else
      put(*one->source, std::move(one->sample), one->time);
  }
  collected_.erase(collected_.begin(), end);
  collected_bytes_ = 0;
}

// Counts the samples that are missing before the received sample `sequence`.
void RecordCollector::note_seen(Source& source, std::uint64_t sequence) {
  if (sequence < source.seen) source.next = source.seen = sequence;  // a mirror that restarted
  count_lost(sequence - source.seen);
  source.seen = sequence + 1;
}

void RecordCollector::put(Source& source, bus::Sample&& sample, std::uint64_t time) {
  const std::uint64_t sequence = sample.header().sequence;
  note_seen(source, sequence);
  last_time_ = std::max(last_time_ + 1, time);  // all times differ
  RecordedSample recorded{.publisher = source.publisher,
                          .bytes = bytes_of(sample) + kOfSample,
                          .log_time = last_time_,
                          .first_lost = source.next,
                          .lost = sequence - source.next};
  if (recorded.lost != 0) recorded.why_lost.swap(source.why_lost);
  recorded.sample = std::move(sample);
  recorded.has_sample = true;
  if (buffer_.put(recorded, options_.reliable)) {
    source.next = source.seen;
    source.why_lost.clear();
  } else {
    recorded.why_lost.swap(source.why_lost);
    count_lost(1);
  }
}

// Some may be counted already, because samples that were not copied are also missing before the
// next received sample.
void RecordCollector::note_missing(Source& source, bus::MissingSamples&& missing) {
  if (missing.end <= source.seen) return;
  count_lost(missing.end - source.seen);
  source.seen = missing.end;
  if (missing.why.empty()) return;
  unwritable_.fetch_add(1, std::memory_order_relaxed);
  source.why_lost = std::move(missing.why);
}

void RecordCollector::report_last_lost() {
  if (last_time_ == 0) last_time_ = clock_.now();  // no sample was recorded
  for (const auto& [name, source] : sources_) {
    if (source.seen == source.next) continue;
    RecordedSample recorded{.publisher = source.publisher,
                            .log_time = last_time_,
                            .first_lost = source.next,
                            .lost = source.seen - source.next,
                            .why_lost = source.why_lost};
    (void)buffer_.put(recorded, true);
  }
}

// `first`: the sequence of the first sample that was received or is missing.
RecordCollector::Source& RecordCollector::source_of(const bus::PublisherName& name,
                                                    const std::string& topic, std::uint64_t first) {
  const auto [found, is_new] = sources_.try_emplace(name);
  if (is_new) {
    found->second.publisher = known_publisher(name, topic);
    found->second.next = found->second.seen = first;
  }
  return found->second;
}

std::shared_ptr<RecordedPublisher> RecordCollector::known_publisher(const bus::PublisherName& name,
                                                                    const std::string& topic) {
  if (!known_.contains(name)) look_around();
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second.publisher;
  return std::make_shared<RecordedPublisher>(
      RecordedPublisher{topic, "", {{"publisher", bus::to_string(name)}}});
}

}  // namespace tensorbus::recording
