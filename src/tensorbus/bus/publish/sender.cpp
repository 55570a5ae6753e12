#include "tensorbus/bus/publish/sender.hpp"

#include <algorithm>
#include <new>

#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::uint64_t kMaxSequence = ~std::uint64_t{0} >> 1U;  // the next number is valid, too

std::uint32_t clamped(std::uint32_t value, std::uint32_t most) {
  return std::clamp<std::uint32_t>(value, 1, most);
}

bool blocks(const std::shared_ptr<link::OwnerLink>& link) {
  return link->borrower().reliable && link->room() != link::OwnerLink::Room::kYes;
}

}  // namespace

Sender::Sender(std::string topic, std::uint32_t number, const PublisherOptions& options,
               std::shared_ptr<memory::Arena> arena, std::shared_ptr<link::WakePage> wake_page,
               link::MirrorOrigin origin)
    : topic_(std::move(topic)),
      number_(number),
      options_(options),
      origin_(std::move(origin)),
      arena_(std::move(arena)),
      sleeper_(std::move(wake_page)),
      pool_(options_.isolated ? arena_->make_pool(max_grant()) : max_grant()) {}

Published Sender::publish(OutgoingSample& sample, const platform::StopCondition& stop,
                          const Stamp* as) {
  const platform::MutexLock lock(mutex_);
  if (as != nullptr) require_next(as->sequence);
  const Outcome outcome = wait_for_room_in_all(stop);
  if (outcome != Outcome::kDone) return {outcome};
  if (as != nullptr) {
    require_next(as->sequence);  // another thread may have published in the meantime
    begin(as->sequence);
    next_sequence_ = as->sequence;
  }
  return push_to_all(sample, as);
}

// Returns kDone when every reliable link has room for a sample, else another outcome.
Outcome Sender::wait_for_room_in_all(const platform::StopCondition& stop) {
  if (!closed_ && options_.reliable && !all_have_room()) {
    ++stats_.waited;
    ++stats_.waiting;
    Outcome outcome = Outcome::kDone;
    while (outcome == Outcome::kDone && !closed_ && !all_have_room()) outcome = wait_for_room(stop);
    --stats_.waiting;
    if (outcome == Outcome::kTimedOut) ++stats_.timed_out;
    if (outcome != Outcome::kDone) return outcome;
  }
  return closed_ ? Outcome::kClosed : Outcome::kDone;
}

void Sender::require_next(std::uint64_t sequence) const {
  if (sequence < next_sequence_ || sequence > kMaxSequence)
    throw Error(Code::kInvalidArgument, "sequence=" + std::to_string(sequence) + ": expected " +
                                            std::to_string(next_sequence_) + " to 2^63 - 1");
}

bool Sender::restart(std::uint64_t sequence) {
  if (sequence > kMaxSequence)
    throw Error(Code::kInvalidArgument,
                "sequence=" + std::to_string(sequence) + ": expected 0 to 2^63 - 1");
  const platform::MutexLock lock(mutex_);
  if (closed_ || !links_.empty()) return false;
  history_.clear();
  next_sequence_ = sequence;
  begun_ = sequence != 0 || origin_.machine.empty();
  return true;
}

void Sender::begin_at(std::uint64_t sequence) {
  const platform::MutexLock lock(mutex_);
  if (begun_) return;
  require_next(sequence);
  begin(sequence);
}

void Sender::begin(std::uint64_t sequence) noexcept {
  if (std::exchange(begun_, true)) return;
  next_sequence_ = sequence;
  for (const auto& link : links_) link->mark_begun(sequence);
}

bool Sender::ready() {
  const platform::MutexLock lock(mutex_);
  const auto has_room = [this] {
    mutex_.assert_held();
    return closed_ || !options_.reliable || all_have_room();
  };
  if (has_room()) {
    if (std::exchange(event_armed_, false)) sleeper_.disarm_event();
    return true;
  }
  (void)look_after_blocking();
  if (event_) {
    event_->clear();
    if (!std::exchange(event_armed_, true)) sleeper_.arm_event();
  }
  return has_room();
}

int Sender::event_descriptor() {
  const platform::MutexLock lock(mutex_);
  if (!event_) event_.emplace();
  return event_->fd();
}

bool Sender::polled() const {
  const platform::MutexLock lock(mutex_);
  return event_.has_value();
}

void Sender::listen(const std::shared_ptr<link::OwnerLink>& link, platform::Fd listener) {
  const platform::MutexLock lock(mutex_);
  if (!listener || std::ranges::find(links_, link) == links_.end()) return;
  event_->listen_to(listener);
  link->room_listener = std::move(listener);
}

void Sender::drop_listener(link::OwnerLink& link) noexcept {
  if (!link.room_listener) return;
  event_->stop_listening_to(link.room_listener);
  link.room_listener.reset();
}

// Wakes parked threads and polling programs.
void Sender::wake_all() noexcept {
  sleeper_.wake_own();
  if (event_) event_->signal();
}

// Returns kDone if there may be room; another thread may take it first.
Outcome Sender::wait_for_room(const platform::StopCondition& stop) {
  const platform::MutexUnlock unlocked(mutex_);
  std::chrono::nanoseconds longest{};
  const auto has_room = [&] {
    const platform::MutexLock lock(mutex_);
    longest = std::min(longest_park(), look_after_blocking());
    return closed_ || all_have_room();
  };
  return stop.wait(has_room, [&](std::chrono::nanoseconds most) {
    return sleeper_.park(std::min(most, longest), has_room);
  });
}

// Returns the longest time to park: 1 ms if a link awaits streams, since a GPU wakes no thread.
std::chrono::nanoseconds Sender::longest_park() const {
  const bool awaits_streams = std::any_of(links_.begin(), links_.end(),
                                          [](const auto& link) { return link->awaits_streams(); });
  return awaits_streams ? std::chrono::milliseconds(1) : platform::kParkSlice;
}

bool Sender::all_have_room() {
  return std::ranges::none_of(links_, blocks) ||
         (stop_broken_links() && std::ranges::none_of(links_, blocks));
}

// Called while publish() waits, and by ready(). Cuts off the links that have blocked publish() for
// lag_timeout. Returns the time until the next link must be cut off.
std::chrono::nanoseconds Sender::look_after_blocking() {
  const auto now = platform::Clock::now();
  const auto left = [&](const auto& link) {
    if (!blocks(link)) return std::chrono::nanoseconds::max();
    link->mark_blocked(now);
    return options_.lag_timeout - (now - *link->blocked_since());
  };
  stats_.cut_off += stop_links([&](const auto& link) { return left(link).count() <= 0; },
                               &link::OwnerLink::cut_off);
  auto least = std::chrono::nanoseconds::max();
  for (const auto& link : links_) least = std::min(least, left(link));
  return least;
}

// Returns the link that has blocked publish() for the longest time, and still does; null if there
// is none.
const link::OwnerLink* Sender::longest_blocking() {
  const link::OwnerLink* found = nullptr;
  for (const auto& link : links_)
    if (link->blocked_since() && blocks(link) &&
        (found == nullptr || *link->blocked_since() < *found->blocked_since()))
      found = link.get();
  return found;
}

// Stops links whose return ring is invalid. Returns false if no link is broken.
bool Sender::stop_broken_links() {
  return stop_links([](const auto& link) { return link->broken(); }, &link::OwnerLink::recall) != 0;
}

// Stops the links for which `which` returns true. A stopped link gets no new samples, and publish()
// ignores it. Its borrower keeps its leases until the link ends. Returns the number of stopped
// links.
template <typename Which>
std::uint32_t Sender::stop_links(const Which& which, void (link::OwnerLink::*stop)() noexcept) {
  const auto stopped =
      std::ranges::partition(links_, [&](const auto& link) { return !which(link); });
  if (stopped.empty()) return 0;
  const auto count = static_cast<std::uint32_t>(stopped.size());
  for (const auto& link : stopped) {
    (*link.*stop)();
    drop_listener(*link);
  }
  stopped_.insert(stopped_.end(), stopped.begin(), stopped.end());  // capacity is reserved
  links_.erase(stopped.begin(), stopped.end());
  if (link_stopped_) link_stopped_();
  note_change();
  return count;
}

bool Sender::gets_nothing_more(const link::OwnerLink& link) const {
  const platform::MutexLock lock(mutex_);
  return closed_ || link.broken() || link.is_cut_off();
}

void Sender::note_change() {
  changed_.store(true, std::memory_order_relaxed);
  if (subscribers_changed_) subscribers_changed_();
}

void Sender::trace(std::shared_ptr<link::TraceRing> ring) {
  const platform::MutexLock lock(mutex_);
  traced_.store(ring != nullptr, std::memory_order_relaxed);
  trace_ = std::move(ring);
}

// The event loop logs drops: the publishing thread only wakes it, once for many drops.
void Sender::note_drops() {
  if (!std::exchange(drops_pending_, true) && on_drops_) on_drops_();
}

void Sender::drop_unsent(link::OwnerLink& link) {
  ++stats_.dropped_unsent;
  link.count_dropped_unsent();
  note_drops();
}

std::vector<Sender::Dropped> Sender::take_drops() {
  const platform::MutexLock lock(mutex_);
  std::vector<Dropped> found;
  found.reserve(links_.size());  // no call may throw after drops were taken
  for (const auto& link : links_)
    if (const link::Drops drops = link->take_drops(); drops.all() != 0)
      found.push_back({link, drops});
  drops_pending_ = !found.empty();
  return found;
}

Published Sender::push_to_all(OutgoingSample& sample, const Stamp* as) {
  // Calls that may fail come first: on failure no subscriber has the sample. Only a link that is
  // not reliable may fail later: it is skipped. publish() has checked the room of reliable links.
  if (options_.reliable)
    for (const auto& link : links_)
      if (link->borrower().reliable) link->prepare(sample.issued, sample.writer);
  link::Entry entry = sample.entry;
  entry.sequence = next_sequence_;
  entry.timestamp_ns = as == nullptr ? platform::wall_clock_ns() : as->timestamp_ns;
  if (entry.fingerprint == 0) entry.fingerprint = options_.type.fingerprint();
  remember(entry, sample.issued);
  if (trace_) [[unlikely]]
    trace_->write_published(number_, next_sequence_);
  ++next_sequence_;
  const link::PublishedSample* const issued = sample.issued.get();
  std::uint32_t reached = 0;
  for (const auto& link : links_) {
    if (!link->borrower().reliable && link->room() != link::OwnerLink::Room::kYes &&
        !make_room(*link))
      continue;
    try {
      // The last link takes the caller's reference: counting one more takes a locked instruction.
      const bool last = &link == &links_.back();
      link->push(entry, last ? std::move(sample.issued) : sample.issued, sample.writer);
      ++reached;
    } catch (const Error&) {
      drop_unsent(*link);
    } catch (const std::bad_alloc&) {
      drop_unsent(*link);
    }
  }
  wake_subscribers();
  ++stats_.sent;
  stats_.bytes_copied += sample.copied_bytes;
  bytes_sent_ += sample.bytes;
  stats_.delivered += reached;
  // `issued` is valid if a link or the history keeps the sample: samples are returned under mutex_.
  if (issued != nullptr && (reached != 0 || options_.history != 0)) issued->count_in(in_flight_);
  drain_after_push();
  return {Outcome::kDone, entry.sequence, reached};
}

// Drops samples of a link for which publish() does not wait. Returns false, and counts a dropped
// sample, if the borrower holds as many samples as it may.
bool Sender::make_room(link::OwnerLink& link) {
  stats_.dropped_depth += link.drop_until_room();
  note_drops();
  if (link.room() == link::OwnerLink::Room::kYes) return true;
  ++stats_.dropped_held;
  link.count_dropped_held();
  return false;
}

void Sender::wake_subscribers() {
  link::full_fence();  // one for all links; pairs with Sleeper::enter()
  for (const auto& link : links_) link->wake_subscriber();
  platform::kill_point("publish.woken");
}

void Sender::drain_after_push() {
  bool all_sound = true;
  for (const auto& link : links_)
    if (link->worth_draining()) all_sound = link->drain() && all_sound;
  for (const auto& link : stopped_) (void)link->drain();
  if (!all_sound) stop_broken_links();
}

void Sender::remember(const link::Entry& entry, const link::PublishedRef& sample) {
  if (options_.history == 0) return;
  history_.push_back({entry, sample});
  if (history_.size() > options_.history) history_.pop_front();
}

link::LinkLimits Sender::limits_of(link::LinkLimits asked) const noexcept {
  return {clamped(asked.depth != 0 ? asked.depth : options_.depth, link::kMaxDepth),
          clamped(asked.max_held, link::kMaxHeld - link::kMaxDepth)};
}

Sender::Adopted Sender::adopt(link::LinkLimits limits, link::Waker subscriber,
                              std::shared_ptr<link::SegmentSender> segments,
                              link::Borrower borrower, std::uint64_t resume_at,
                              const Announce& announce) {
  borrower.reliable = borrower.reliable && options_.reliable;
  auto link = std::make_shared<link::OwnerLink>(limits, std::move(subscriber), std::move(segments),
                                                std::move(borrower));
  const platform::MutexLock lock(mutex_);
  if (closed_) return {};
  auto kept = history_.end() - std::min<std::ptrdiff_t>(std::ssize(history_), limits.depth);
  std::uint64_t first = kept == history_.end() ? next_sequence_ : kept->entry.sequence;
  if (!begun_) first = link::kNoSequence;
  // A subscriber that resumes has had the samples before `resume_at`, and counts the lost samples.
  if (resume_at <= next_sequence_) {
    while (kept != history_.end() && kept->entry.sequence < resume_at) ++kept;
    first = resume_at;
  }
  for (auto at = kept; at != history_.end(); ++at)
    link->push(at->entry, at->sample);  // an Error here refuses the link
  platform::kill_point("link.adopted");
  Adopted adopted{link, first};
  // Reserved before the announcement: after it, neither adding nor stopping a link may fail.
  links_.reserve(links_.size() + 1);
  stopped_.reserve(stopped_.size() + links_.size() + 1);
  announce(adopted);
  stats_.delivered += static_cast<std::uint64_t>(history_.end() - kept);
  links_.push_back(link);
  note_change();
  wake_all();
  return adopted;
}

void Sender::set_notifier(const std::shared_ptr<link::OwnerLink>& link, platform::Fd notifier) {
  const platform::MutexLock lock(mutex_);
  link->subscriber().set_notifier(std::move(notifier));
  link::full_fence();  // samples pushed before did not use the notifier
  link->subscriber().wake_if_sleeping();
}

bool Sender::stop_link(const std::shared_ptr<link::OwnerLink>& link) {
  const platform::MutexLock lock(mutex_);
  if (std::erase(links_, link) != 0) note_change();
  std::erase(stopped_, link);
  drop_listener(*link);
  link->recall();
  (void)link->drain();
  const bool more = link->outstanding() != 0;
  if (more) stopped_.push_back(link);
  wake_all();
  return more;
}

void Sender::end_link(const std::shared_ptr<link::OwnerLink>& link) {
  const platform::MutexLock lock(mutex_);
  if (std::erase(links_, link) != 0) note_change();
  std::erase(stopped_, link);
  drop_listener(*link);
  stats_.bad_returns += link->bad_returns();
  link->take_all_back();
  wake_all();
}

link::PublishedRef Sender::issued(const link::OwnerLink& link, std::uint64_t token) const {
  const platform::MutexLock lock(mutex_);
  return link.issued(token);
}

void Sender::drain() {
  const platform::MutexLock lock(mutex_);
  drain_links();
}

void Sender::drain_if_idle() {
  if (!mutex_.try_lock()) return;
  const platform::MutexLock lock(mutex_, std::adopt_lock);
  drain_links();
}

void Sender::drain_links() {
  for (const auto& link : links_) (void)link->drain();
  for (const auto& link : stopped_) (void)link->drain();
  stop_broken_links();
}

bool Sender::close(bool broken_off) {
  const platform::MutexLock lock(mutex_);
  if (closed_) return false;
  closed_ = true;
  history_.clear();
  stopped_.insert(stopped_.end(), links_.begin(), links_.end());
  for (const auto& link : stopped_) {
    if (!broken_off) link->mark_closed(next_sequence_);
    drop_listener(*link);
  }
  links_.clear();
  if (options_.isolated) arena_->close_pool(pool_);
  wake_all();
  return true;
}

bool Sender::closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

Outcome Sender::wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop) {
  const auto ready = [&] {
    const platform::MutexLock lock(mutex_);
    return closed_ || links_.size() >= count;
  };
  const Outcome outcome =
      stop.wait(ready, [&](std::chrono::nanoseconds most) { return sleeper_.park(most, ready); });
  return outcome == Outcome::kDone && closed() ? Outcome::kClosed : outcome;
}

std::uint32_t Sender::subscribers() const {
  const platform::MutexLock lock(mutex_);
  return static_cast<std::uint32_t>(links_.size());
}

PublisherStats Sender::stats() {
  drain();
  const platform::MutexLock lock(mutex_);
  return stats_now();
}

PublisherReport Sender::report() {
  PublisherReport report{.topic = topic_,
                         .number = number_,
                         .node = options_.node,
                         .type = options_.type.definition(),
                         .machine = origin_.machine,
                         .origin = origin_.publisher,
                         .depth = options_.depth,
                         .history = options_.history,
                         .reliable = options_.reliable,
                         .shared = options_.shared,
                         .isolated = options_.isolated};
  const std::uint64_t now = platform::wall_clock_ns();
  report.links.reserve(subscribers() + 1);  // normally nothing is allocated under the mutex
  const platform::MutexLock lock(mutex_);
  drain_links();
  report.bytes_sent = bytes_sent_;
  report.stats = stats_now();
  for (const auto& link : links_) report.links.push_back(link->report(now));
  for (const auto& link : stopped_)
    if (link->is_cut_off() && link->outstanding() != 0) report.links.push_back(link->report(now));
  return report;
}

link::HeldSamples Sender::held_samples(const link::OwnerLink& link) const {
  const platform::MutexLock lock(mutex_);
  return link.held_samples();
}

PublisherStats Sender::stats_now() {
  PublisherStats stats = stats_;
  if (const link::OwnerLink* const link = longest_blocking()) {
    stats.blocked_by = link->borrower().pid;
    stats.blocked_for = platform::Clock::now() - *link->blocked_since();
  }
  stats.subscribers = static_cast<std::uint32_t>(links_.size());
  stats.bytes_in_flight = in_flight_.bytes();
  for (const auto& link : links_) stats.bad_returns += link->bad_returns();
  for (const auto& link : stopped_) stats.bad_returns += link->bad_returns();
  return stats;
}

}  // namespace tensorbus::bus
