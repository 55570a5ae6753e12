// Takes samples from links: at once, or when the leases, copies or segments that they need have
// come.
#include <new>
#include <utility>

#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr int kSkippedAtATime = 64;
constexpr std::size_t kMaxMissing = 1024;  // gaps not yet returned by take_missing()

}  // namespace

// Reads the link's next sample. Counts and skips malformed samples, at most kSkippedAtATime: a
// publisher that sends only malformed samples must not keep the thread here.
bool Receiver::take_from(const LinkRef& link, Batch& batch) {
  link::Entry entry;
  for (int skipped = 0; skipped < kSkippedAtATime; ++skipped) {
    if (link->set_aside) {
      if (!link->look_again) return false;  // as in ready()
      entry = *link->set_aside;
      link->set_aside.reset();
    } else if (!link->pop(entry)) {
      if (link->broken()) end_broken(*link);
      return false;
    }
    settle_later(*link);
    if (batch.rows != nullptr && take_row(*link, entry, *batch.rows)) return true;
    Taken taken = Taken::kNever;
    try {
      taken = take_entry(link, entry, batch.next());
    } catch (const Error& error) {
      if (error.code() == Code::kOutOfMemory) {
        try_again_later(*link, entry);
        throw;
      }
      ++stats_.bad;
      // A GPU that this process does not have, or cannot use.
      if (error.code() == Code::kUnsupported || error.code() == Code::kForked) throw;
    } catch (const std::bad_alloc&) {
      try_again_later(*link, entry);
      throw;
    }
    if (taken == Taken::kDone && batch.rows != nullptr) give_to_rows(link, entry, batch);
    if (taken != Taken::kNever) return taken == Taken::kDone;
  }
  return false;
}

// Copies the common kind of row at once, without a Sample or a lease. Returns false for other
// samples.
bool Receiver::take_row(link::BorrowerLink& link, const link::Entry& entry, RowSink& rows) {
  if (!pending_.empty() || trace_ || !rows.take(link, entry)) return false;
  platform::kill_point("receive.described");
  link.release_soon(entry.token);
  count_received(link, entry);
  return true;
}

// Copies the sample that was just read into a row. If it does not fit, sets it aside as read, for
// the next receive().
void Receiver::give_to_rows(const LinkRef& link, const link::Entry& entry, Batch& batch) {
  Sample& sample = batch.room.front();
  if (batch.rows->take(sample)) {
    sample = Sample();
    return;
  }
  Error refused(Code::kInvalidArgument, batch.rows->refusal(sample));
  pending_[link.get()] = {entry.token, std::move(sample)};
  (void)set_aside(*link, entry);
  link->look_again = true;
  throw refused;
}

Receiver::Taken Receiver::take_entry(const LinkRef& link, const link::Entry& entry,
                                     Sample& sample) {
  if (pending_.empty()) return read_entry(link, entry, nullptr, sample);  // the common case
  const auto found = pending_.find(link.get());
  if (found == pending_.end() || found->second.token != entry.token)
    return read_entry(link, entry, nullptr, sample);
  if (std::holds_alternative<PendingSample::Asked>(found->second.state))
    return set_aside(*link, entry);
  PendingSample pending = std::move(pending_.extract(found).mapped());
  if (const auto* refused = std::get_if<PendingSample::Refused>(&pending.state)) {
    note_missing(*link, entry.sequence + 1, refused->why);
    return drop(*link, entry, stats_.gone);
  }
  if (auto* const acquired = std::get_if<PendingSample::Acquired>(&pending.state))
    return read_entry(link, entry, acquired, sample);
  sample = std::move(std::get<PendingSample::Read>(pending.state));
  return options_.pin ? pin(link, entry, sample) : Taken::kDone;
}

// `acquired`: the leases and copies that were requested for this entry; null if none were.
Receiver::Taken Receiver::read_entry(const LinkRef& link, const link::Entry& entry,
                                     AcquiredLeases* acquired, Sample& sample) {
  switch (SampleData::read(sample, link, entry, receiving_, spare_, acquired)) {
    case SampleData::Read::kFieldsAlone:
      link->release_soon(entry.token);
      count_received(*link, entry);
      if (trace_) [[unlikely]]
        SampleData::trace(sample, trace_);
      return Taken::kDone;
    case SampleData::Read::kDone:
      count_received(*link, entry);
      if (acquired != nullptr && !acquired->staged.empty()) ++stats_.staged;
      if (trace_) [[unlikely]]
        SampleData::trace(sample, trace_);
      return options_.pin ? pin(link, entry, sample) : Taken::kDone;
    case SampleData::Read::kNotAcquired:
      if (!acquire_) return drop(*link, entry, stats_.gone);
      acquire_(link, entry.token, SampleData::handed_on(*link, entry));
      pending_[link.get()] = {entry.token};
      break;
    case SampleData::Read::kOutOfReach: {
      if (!stage_ || (acquired != nullptr && !acquired->staged.empty()))
        return drop(*link, entry, stats_.gone);
      auto tensors = SampleData::out_of_reach(*link, SampleData::handed_on(*link, entry), acquired,
                                              receiving_);
      stage_(link, entry.token, std::move(tensors),
             acquired != nullptr ? std::move(*acquired) : AcquiredLeases());
      pending_[link.get()] = {entry.token};
      break;
    }
    case SampleData::Read::kHalfWritten:
      return drop(*link, entry, stats_.gone);
    case SampleData::Read::kSegmentMissing:
      if (link->ended()) return drop(*link, entry, stats_.bad);  // the segment will not come
  }
  return set_aside(*link, entry);
}

// Ends a link with a broken ring. It is removed when the entries popped before are handled. Its
// publisher is not joined again.
void Receiver::end_broken(link::BorrowerLink& link) noexcept {
  if (std::exchange(link.broken_counted, true)) return;
  link.end();
  link.unsubscribe();
  ++stats_.bad;
  try {
    stats_.last_refusal = "the queue from publisher " + std::to_string(link.source()->publisher) +
                          " of participant " + link.source()->participant.hex() +
                          " contains invalid data: this subscriber has left it";
  } catch (const std::bad_alloc&) {  // the count still reports it
    stats_.last_refusal.clear();
  }
}

void Receiver::settle_later(link::BorrowerLink& link) noexcept {
  if (link.to_settle) return;
  link.to_settle = true;
  to_settle_.push_back(&link);
}

// Notifies all publishers of popped and returned samples, with at most one fence.
void Receiver::settle() noexcept {
  using Settled = link::BorrowerLink::Settled;
  bool given_back = false;
  std::erase_if(to_settle_, [&given_back](link::BorrowerLink* link) {
    const Settled settled = link->settle();
    given_back = given_back || settled == Settled::kGivenBack;
    return settled == Settled::kNoWaiter;
  });
  // Pairs with Sleeper::enter(): the publisher sees these writes, or this thread sees that the
  // publisher sleeps. A pop() needs no fence.
  if (given_back) link::full_fence();
  for (link::BorrowerLink* const link : to_settle_) link->wake_publisher();
  to_settle_.clear();
}

Receiver::Taken Receiver::set_aside(link::BorrowerLink& link, const link::Entry& entry) noexcept {
  link.set_aside = entry;
  link.look_again = false;
  return Taken::kLater;
}

// Pins a sample that was read, or sets it aside until the owner has replied.
Receiver::Taken Receiver::pin(const LinkRef& link, const link::Entry& entry, Sample& sample) {
  const auto awaited = pinning_.pin(sample, link->peer_memory().get());
  if (awaited.empty()) return Taken::kDone;
  try {
    PendingSample& pending = pending_[link.get()];
    pending = {entry.token, std::move(sample)};
  } catch (const std::bad_alloc&) {  // the sample works without the pin
    Pinning::withdraw(awaited);
    return Taken::kDone;
  }
  return set_aside(*link, entry);
}

Receiver::Taken Receiver::drop(link::BorrowerLink& link, const link::Entry& entry,
                               std::uint64_t& counter) noexcept {
  link.release(entry.token);
  ++counter;
  return Taken::kNever;
}

void Receiver::count_received(link::BorrowerLink& link, const link::Entry& entry) noexcept {
  if (entry.sequence != link.next_sequence()) [[unlikely]]
    count_gap(link, entry.sequence);
  link.set_last(entry.sequence);
  ++stats_.received;
}

[[gnu::cold]] void Receiver::count_gap(link::BorrowerLink& link, std::uint64_t sequence) noexcept {
  if (link.next_sequence() == link::kNoSequence) link.begin(sequence);
  if (sequence <= link.next_sequence()) return;
  note_missing(link, sequence, {});
  stats_.missed += sequence - link.next_sequence();
}

// `count`: the number of samples missed by a link that was not stopped.
void Receiver::count_missed_at_the_end(link::BorrowerLink& link, std::uint64_t count) noexcept {
  if (link.stopped()) count = link.empty() ? link.take_missed_before_stop() : 0;
  count_missed(link, count);
}

void Receiver::count_missed(const link::BorrowerLink& link, std::uint64_t count) noexcept {
  if (count == 0) return;
  note_missing(link, link.next_sequence() + count, {});
  stats_.missed += count;
}

void Receiver::miss_what_is_left() noexcept {
  const platform::MutexLock lock(mutex_);
  for (const LinkRef& link : links_)
    if (link->stopped()) count_missed(*link, link->take_missed_before_stop());
}

// `end`: the number after the last missing sample. Without memory for the record, only `stats_`
// counts them.
void Receiver::note_missing(const link::BorrowerLink& link, std::uint64_t end,
                            std::string why) noexcept {
  if (!receiving_.in_host_memory || missing_.size() == kMaxMissing) return;
  const link::Source& source = *link.source();
  std::uint64_t first = link.next_sequence();
  if (first == link::kNoSequence) first = end - 1;  // the sample that `why` refers to
  if (first == end) return;
  try {
    missing_.push_back({{source.participant, source.publisher}, first, end, std::move(why)});
  } catch (const std::bad_alloc&) {
    return;
  }
  has_missing_.store(true, std::memory_order_relaxed);  // relaxed: the mutex orders missing_
}

std::vector<MissingSamples> Receiver::take_missing() {
  if (!has_missing_.load(std::memory_order_relaxed)) return {};
  const platform::MutexLock lock(mutex_);
  has_missing_.store(false, std::memory_order_relaxed);
  return std::exchange(missing_, {});
}

void Receiver::try_again_later(link::BorrowerLink& link, const link::Entry& entry) noexcept {
  link.set_aside = entry;
  link.look_again = true;  // the sample is still there
  if (event_) event_->signal();
}

void Receiver::acquired(const LinkRef& link, std::uint64_t token,
                        std::variant<AcquiredLeases, Error> result) {
  const platform::MutexLock lock(mutex_);
  const auto asked = pending_.find(link.get());
  if (asked == pending_.end() || asked->second.token != token) return;  // the sample is gone
  if (auto* const acquired = std::get_if<AcquiredLeases>(&result))
    asked->second.state = std::move(*acquired);
  else
    asked->second.state = PendingSample::Refused{std::get<Error>(result).what()};
  link->look_again = true;
  wake_all();
}

bool Receiver::awaits_leases(const LinkRef& link, std::uint64_t token) const {
  const platform::MutexLock lock(mutex_);
  const auto asked = pending_.find(link.get());
  return asked != pending_.end() && asked->second.token == token &&
         std::holds_alternative<PendingSample::Asked>(asked->second.state);
}

void Receiver::refuse_set_aside(const char* why) {
  const platform::MutexLock lock(mutex_);
  for (const LinkRef& link : links_) {
    const auto asked = pending_.find(link.get());
    if (asked == pending_.end() ||
        !std::holds_alternative<PendingSample::Asked>(asked->second.state))
      continue;
    asked->second.state = PendingSample::Refused{why};
    link->look_again = true;
  }
  wake_all();
}

void Receiver::segment_came() {
  const platform::MutexLock lock(mutex_);
  for (const LinkRef& link : links_) link->look_again = true;
  wake_all();
}

}  // namespace tensorbus::bus
