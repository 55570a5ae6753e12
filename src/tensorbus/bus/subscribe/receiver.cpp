#include "tensorbus/bus/subscribe/receiver.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

// Returns the device to which tensors move; nothing for host memory. Throws if it is not usable.
std::optional<Device> wanted_on(const std::optional<Device>& device) {
  if (!device || !device->is_cuda()) return std::nullopt;
  DeviceCopier::require(*device);
  return device;
}

inline void relax_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Receiver::Receiver(std::string topic, const SubscriberOptions& options,
                   std::shared_ptr<link::WakePage> wake_page, std::shared_ptr<DeviceCopier> copier)
    : topic_(std::move(topic)),
      options_(options),
      receiving_{options.access, wanted_on(options.device), std::move(copier),
                 options.device && options.device->is_host()},
      sleeper_(std::move(wake_page)) {
  if (receiving_.in_host_memory && options_.access == Access::kShared)
    throw Error(Code::kInvalidArgument,
                "device: copies in host memory are not shared; use another access");
  if (options_.pin) pinning_.require(options_.access);
}

Outcome Receiver::receive(Batch& batch, const platform::StopCondition& stop) {
  Outcome outcome = try_receive(batch);
  if (outcome != Outcome::kTimedOut) return outcome;
  const auto begin = platform::Clock::now();
  const bool adapts = options_.spin.count() > 0;
  const bool looks = adapts && spin_.looks();
  outcome = spin(batch, stop, looks ? std::max(options_.spin, spin_.most()) : options_.spin);
  if (looks) spin_.looked(outcome == Outcome::kDone);
  if (outcome != Outcome::kTimedOut) return outcome;
  std::uint32_t seen = 0;
  const auto received = [&] {
    seen = sleeper_.wakes();  // read first: a segment that arrives later ends the park
    outcome = try_receive(batch);
    return outcome != Outcome::kTimedOut;
  };
  const Outcome waited = stop.wait(received, [&](std::chrono::nanoseconds most) {
    return sleeper_.park(seen, most, [this] { return anything_ready(); });
  });
  if (adapts) spin_.slept(platform::Clock::now() - begin);
  return waited == Outcome::kDone ? outcome : waited;
}

// Yields after options_.spin has passed, because a publisher may share the core.
Outcome Receiver::spin(Batch& batch, const platform::StopCondition& stop,
                       std::chrono::nanoseconds most) {
  const platform::Deadline until(std::min(most, stop.timeout()));
  const platform::Deadline own(options_.spin);
  while (!until.passed()) {
    const platform::Deadline ask_at(until.remaining(platform::kAskSlice));
    while (!ask_at.passed()) {
      const Outcome outcome = look_for_a_while(batch);
      if (outcome != Outcome::kTimedOut) return outcome;
      if (own.passed()) std::this_thread::yield();
    }
    if (stop.given_up()) return Outcome::kInterrupted;
  }
  return Outcome::kTimedOut;
}

Outcome Receiver::try_receive(Batch& batch) {
  const Taking taking(*this);
  Outcome outcome = take(batch);
  if (!event_) return outcome;
  if (outcome == Outcome::kTimedOut) {
    if (!arm_event()) return outcome;
    outcome = take(batch);
  }
  disarm_event();  // there may be more samples
  return outcome;
}

// Polls under one lock, which keeps other threads out for about a microsecond.
Outcome Receiver::look_for_a_while(Batch& batch) {
  const Taking taking(*this);
  Outcome outcome = Outcome::kTimedOut;
  for (int i = 0; i < 16 && outcome == Outcome::kTimedOut; ++i) {
    relax_cpu();
    outcome = take(batch);
  }
  return outcome;
}

Outcome Receiver::take(Batch& batch) {
  if (closed_) return Outcome::kClosed;
  throw_pending_error();
  if (ends_.watched()) forget_ended_links();
  if (ends_.any()) return Outcome::kInterrupted;
  const Outcome outcome = take_next(batch);
  if (outcome != Outcome::kDone)
    return outcome == Outcome::kTimedOut && stream_has_ended() ? Outcome::kClosed : outcome;
  batch.taken = 1;
  while (!batch.full() && take_another(batch)) ++batch.taken;
  return Outcome::kDone;
}

// Takes another sample of a batch. If an Error ends the batch, the next call throws it.
bool Receiver::take_another(Batch& batch) {
  try {
    return take_next(batch) == Outcome::kDone;
  } catch (const Error& error) {
    // A sample that lacked memory, or that does not fit a row, is set aside, and is tried again.
    const bool is_no_row = batch.rows != nullptr && error.code() == Code::kInvalidArgument;
    if (error.code() != Code::kOutOfMemory && !is_no_row) pending_error_ = error;
  } catch (const std::bad_alloc&) {
  }
  return false;
}

Outcome Receiver::take_next(Batch& batch) {
  bool at_limit = false;
  const std::size_t count = links_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (turn_ >= count) turn_ = 0;
    const LinkRef& link = links_[turn_++];
    if (link->at_hold_limit()) {
      at_limit = true;
      continue;
    }
    if (take_from(link, batch)) return Outcome::kDone;
  }
  if (at_limit) return Outcome::kHoldLimit;
  spare_.refill();
  forget_ended_links();
  if (links_.empty()) {
    for (const LinkRef& link : stream_.forget_closed()) {
      count_missed_at_the_end(*link, link->missed_at_the_end());
      ends_.note(*link);
    }
  }
  ask_to_rejoin();
  return Outcome::kTimedOut;
}

bool Receiver::anything_ready() const {
  const platform::MutexLock lock(mutex_);
  return would_return();
}

bool Receiver::ready() {
  const platform::MutexLock lock(mutex_);
  forget_ended_links();  // as receive() does: the last sample may have been taken since
  if (would_return()) return true;
  ask_to_rejoin();
  if (!event_ || !arm_event()) return false;
  disarm_event();  // it may have come before the event was armed, without a notification
  return true;
}

bool Receiver::would_return() const {
  return closed_ || !mismatches_.empty() || pending_error_ || ends_.any() || stream_has_ended() ||
         std::any_of(links_.begin(), links_.end(),
                     [](const LinkRef& link) { return link->ready() || link->at_hold_limit(); });
}

// Arms the event, so that every cause that ends a receive() signals it. Returns true if receive()
// would return now.
bool Receiver::arm_event() {
  platform::kill_point("receive.nothing_found");
  event_->clear();
  if (!event_armed_)
    sleeper_.arm_event(lazily_ ? link::kSleepsUntilHalfFull : link::kSleepsOnEvent);
  event_armed_ = true;
  const bool something = would_return();
  all_notify_ = !something && !lazily_;
  return something;
}

void Receiver::notify_lazily(bool lazily) {
  const platform::MutexLock lock(mutex_);
  if (std::exchange(lazily_, lazily) == lazily || !event_) return;
  if (!event_armed_) return event_->signal();  // there may be more samples
  // The next try_receive() that finds no sample arms it in the new way.
  event_armed_ = all_notify_ = false;
  sleeper_.disarm_event();
  event_->signal();
}

// The descriptor stays readable until a try_receive() finds no sample; until then publishers need
// not write to it. The first sample after an arm_event() that found none leaves the event armed:
// all samples since then have caused notifications, and usually there is only this one.
void Receiver::disarm_event() {
  if (!event_armed_ || std::exchange(all_notify_, false)) return;
  event_armed_ = false;
  sleeper_.disarm_event();
  if (lazily_) return;  // the program also looks by itself
  if (!event_->readable())
    event_->signal();  // usually a notifier has fired, and the check is cheaper
}

// Removes ended links with empty rings. Leases on their samples keep the link objects.
void Receiver::forget_ended_links() noexcept {
  settle();
  const std::size_t gone = std::erase_if(links_, [this](const LinkRef& link) {
    mutex_.assert_held();
    if (!link->ended() || !link->empty()) return false;
    drop_notifier(*link);
    count_missed_at_the_end(*link, stream_.note_end(link));
    if (!stream_.is_cut_off(link)) ends_.note(*link);
    return true;
  });
  if (gone != 0) stats_.missed += stream_.follow_mirrors(links_);
  if (gone != 0 && links_gone_) links_gone_();
}

void Receiver::watch_publisher_ends() {
  const platform::MutexLock lock(mutex_);
  ends_.watch(may_end());
}

std::vector<PublisherEnd> Receiver::take_publisher_ends() {
  const platform::MutexLock lock(mutex_);
  return ends_.take(may_end());
}

bool Receiver::stream_has_ended() const noexcept {
  return options_.end_of_stream && links_.empty() && stream_.reached();
}

void Receiver::ask_to_rejoin() noexcept {
  if (stream_.look() && rejoin_) rejoin_();
}

std::vector<std::pair<Id, std::uint32_t>> Receiver::take_rejoins() {
  const platform::MutexLock lock(mutex_);
  return stream_.take_rejoins();
}

int Receiver::event_descriptor() {
  const platform::MutexLock lock(mutex_);
  if (!event_) event_.emplace();
  for (const LinkRef& link : links_)
    if (std::vector<platform::Fd> fds; !link->notifier && !(fds = notifier_for(*link)).empty())
      link->channel().send(link::Event{link->id()}, std::move(fds));
  return event_->fd();
}

// Returns a notifier to send; none if the owner's share of this process's descriptors is used up.
std::vector<platform::Fd> Receiver::notifier_for(link::BorrowerLink& link) {
  platform::Notifier notifier = platform::make_notifier();
  try {
    link.notifier_charge = link.peer_memory()->account.take({.descriptors = 1});
  } catch (const memory::PeerLimit&) {
    return {};
  }
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(notifier.sender));
  event_->listen_to(notifier.listener);
  link.notifier = std::move(notifier.listener);
  return fds;
}

void Receiver::drop_notifier(link::BorrowerLink& link) noexcept {
  if (!link.notifier) return;
  event_->stop_listening_to(link.notifier);
  link.notifier.reset();
}

bool Receiver::look_after_event() {
  const platform::MutexLock lock(mutex_);
  if (event_armed_ && would_return()) event_->signal();
  return event_.has_value();
}

// Wakes parked threads and polling programs.
void Receiver::wake_all() noexcept {
  sleeper_.wake_own();
  if (event_) event_->signal();
}

bool Receiver::has_set_aside() const {
  const platform::MutexLock lock(mutex_);
  return !pending_.empty();
}

bool Receiver::may_have_older() const {
  const platform::MutexLock lock(mutex_);
  return std::ranges::any_of(
      links_, [](const LinkRef& link) { return link->is_requested() || link->set_aside; });
}

void Receiver::stop_here() noexcept {
  const platform::MutexLock lock(mutex_);
  stopped_ = true;
  for (const LinkRef& link : links_) link->stop_here();
}

bool Receiver::has_left() const {
  const platform::MutexLock lock(mutex_);
  return std::ranges::any_of(
      links_, [](const LinkRef& link) { return link->is_requested() || !link->empty(); });
}

std::size_t Receiver::links() const {
  const platform::MutexLock lock(mutex_);
  return links_.size();
}

Outcome Receiver::wait_for_publishers(std::uint32_t count, const platform::StopCondition& stop) {
  const auto ready = [&] {
    const platform::MutexLock lock(mutex_);
    ask_to_rejoin();
    const auto live = std::count_if(links_.begin(), links_.end(), [](const LinkRef& link) {
      return link->accepted() && !link->ended();
    });
    return closed_ || !mismatches_.empty() || live >= static_cast<std::ptrdiff_t>(count);
  };
  const Outcome outcome =
      stop.wait(ready, [&](std::chrono::nanoseconds most) { return sleeper_.park(most, ready); });
  if (outcome != Outcome::kDone) return outcome;
  const platform::MutexLock lock(mutex_);
  throw_mismatch();
  return closed_ ? Outcome::kClosed : Outcome::kDone;
}

void Receiver::throw_pending_error() {
  if (pending_error_) throw *std::exchange(pending_error_, std::nullopt);
  throw_mismatch();
}

// Throws the oldest refusal that no call has thrown yet.
void Receiver::throw_mismatch() {
  if (mismatches_.empty()) return;
  Error error(Code::kTypeMismatch, mismatches_.front());
  mismatches_.pop_front();
  throw error;
}

SubscriberStats Receiver::stats() const {
  const platform::MutexLock lock(mutex_);
  SubscriberStats stats = stats_;
  for (const LinkRef& link : links_) {
    stats.held += link->held();
    if (link->accepted() && !link->ended()) ++stats.publishers;
  }
  return stats;
}

SubscriberReport Receiver::report() const {
  SubscriberReport report{.topic = topic_,
                          .node = options_.node,
                          .type = options_.type.definition(),
                          .depth = options_.depth,
                          .max_held = options_.max_held,
                          .reliable = options_.reliable,
                          .access = options_.access,
                          .stats = stats()};
  std::vector<LinkRef> connected;
  {
    const platform::MutexLock lock(mutex_);
    for (const LinkRef& link : links_)
      if (link->accepted() && !link->ended()) connected.push_back(link);
  }
  for (const LinkRef& link : connected)
    report.publishers.push_back(
        to_string({link->source()->participant, link->source()->publisher}));
  return report;
}

bool Receiver::close() {
  if (!let_go()) return false;
  pinning_.close();
  return true;
}

bool Receiver::let_go() {
  const platform::MutexLock lock(mutex_);
  if (closed_) return false;
  closed_ = true;
  for (const LinkRef& link : links_) {
    const auto pending = pending_.find(link.get());
    const bool was_read = pending != pending_.end() &&
                          std::holds_alternative<PendingSample::Read>(pending->second.state);
    if (link->set_aside && !was_read)         // a sample that was read keeps its own lease
      link->release(link->set_aside->token);  // other samples may keep the link for long
    link->set_aside.reset();
    drop_notifier(*link);
    link->unsubscribe();
  }
  links_.clear();
  stream_.clear();
  pending_.clear();
  wake_all();
  return true;
}

bool Receiver::closed() const {
  const platform::MutexLock lock(mutex_);
  return closed_;
}

void Receiver::trace(std::shared_ptr<link::TraceRing> ring) {
  const platform::MutexLock lock(mutex_);
  trace_ = std::move(ring);
}

}  // namespace tensorbus::bus
