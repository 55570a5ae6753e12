#include "tensorbus/link/ring/owner_link.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::link {
namespace {

constexpr std::uint32_t kBacklog = 4;     // lent samples; with more, the borrower is behind
constexpr std::uint32_t kWriteAhead = 3;  // positions whose cache lines are fetched in advance

}  // namespace

// Returns at least 1 ns if there is a lease: the machine's clock may have been set back, and the
// samples of a mirror have the time of another machine.
std::chrono::nanoseconds age_of(const HeldSamples& held, std::uint64_t wall_ns) noexcept {
  if (held.leases == 0) return {};
  const std::uint64_t since = held.oldest_published_ns;
  return std::chrono::nanoseconds(since < wall_ns ? wall_ns - since : 1);
}

OwnerLink::OwnerLink(LinkLimits limits, Waker subscriber, std::shared_ptr<SegmentSender> segments,
                     Borrower borrower)
    : limits_(limits),
      segment_(Geometry::for_link(limits.depth, limits.max_held)),
      samples_(segment_.slots()),
      returns_(segment_.return_tail(), segment_.returns()),
      leases_(limits.depth + limits.max_held),
      tokens_(segment_.geometry().slots),
      subscriber_(std::move(subscriber)),
      segments_(std::move(segments)),
      borrower_(std::move(borrower)) {}

memory::PeerCost OwnerLink::cost_of(LinkLimits limits) noexcept {
  const Geometry geometry = Geometry::for_link(limits.depth, limits.max_held);
  return {.mappings = 1,
          .address_bytes = geometry.bytes(),
          .memory_bytes = geometry.bytes() + geometry.slots * sizeof(std::uint64_t) +
                          (limits.depth + limits.max_held) * sizeof(Returning) +
                          LeaseTable<PublishedRef>::bytes_for(limits.depth + limits.max_held)};
}

std::uint32_t OwnerLink::in_ring() noexcept {
  // Every returned sample was popped before. Often this alone shows that there is room, without a
  // read of the slot that the borrower polls. A borrower that returns samples without popping them
  // harms only its own link.
  const std::uint64_t outstanding = leases_.outstanding();
  if (next_ - oldest_ > outstanding) oldest_ = next_ - outstanding;
  // Reads shared words only if the private count shows that the ring may be full.
  while (next_ - oldest_ >= limits_.depth && samples_.is_taken(oldest_)) ++oldest_;
  return static_cast<std::uint32_t>(next_ - oldest_);
}

OwnerLink::Room OwnerLink::room() {
  if (in_ring() >= limits_.depth) return Room::kRingFull;
  return leases_.full() && (!drain() || leases_.full()) ? Room::kAllHeld : Room::kYes;
}

std::uint32_t OwnerLink::room_for(std::uint32_t most) {
  const auto leases = [this] {
    return static_cast<std::uint32_t>(leases_.capacity()) - leases_.outstanding();
  };
  if (leases() < most) (void)drain();
  most = std::min({most, leases(), limits_.depth});
  while (in_ring() + most > limits_.depth && oldest_ != next_ && samples_.is_taken(oldest_))
    ++oldest_;
  return std::min(most, limits_.depth - static_cast<std::uint32_t>(next_ - oldest_));
}

std::uint32_t OwnerLink::drop_until_room() {
  std::uint32_t count = 0;
  while (room() != Room::kYes && oldest_ != next_) count += drop_oldest() ? 1 : 0;
  dropped_.depth += count;
  return count;
}

bool OwnerLink::drop_oldest() noexcept {
  const std::uint64_t position = oldest_++;
  if (!samples_.drop(position)) return false;
  // A borrower that returns this lease without popping it harms only its own link.
  take_back(token_at(position));
  return true;
}

void OwnerLink::pass_segments(const PublishedRef& sample) {
  if (!sample) return;
  for (const memory::BlockRef& block : sample->blocks()) {
    if (block->segment() == last_segment_) continue;
    segments_->ensure_sent(block->segment(), borrower_.grant);
    last_segment_ = block->segment();
  }
  for (const memory::SegmentId file : sample->files())
    segments_->ensure_sent(file, borrower_.grant);
}

void OwnerLink::prepare(const PublishedRef& sample, const device::GpuStream* writer) {
  prepared_.reset();  // of an earlier sample that was not pushed
  pass_segments(sample);
  if (sample && sample->on_device()) returning_.reserve(limits_.depth + limits_.max_held);
  prepared_ = segments_->mark_for(sample, writer);
}

void OwnerLink::push(Entry& entry, PublishedRef sample, const device::GpuStream* writer) {
  if (!prepared_) prepare(sample, writer);
  entry.timeline = prepared_->packed();
  prepared_.reset();
  push_another(entry, std::move(sample));
}

void OwnerLink::push_another(Entry& entry, PublishedRef sample) noexcept {
  if (sample) ++with_memory_;
  entry.token = leases_.issue(std::move(sample), entry.timestamp_ns);
  platform::kill_point("publish.issued");
  token_at(next_) = entry.token;
  samples_.push(next_++, entry);
  // Fetches the cache lines of a later slot in advance, unless the borrower may still read them. A
  // borrower that keeps up polls this slot and would take the line back: then nothing is fetched.
  if (leases_.outstanding() > kBacklog && next_ + kWriteAhead + 1 - oldest_ < tokens_.size())
    samples_.fetch_to_write(next_ + kWriteAhead);
}

bool OwnerLink::drain() {
  if (!returning_.empty())
    std::erase_if(returning_, [this](const Returning& lease) {
      if (!segments_->reached(lease.mark)) return false;
      take_back(lease.token);
      return true;
    });
  const bool drained = returns_.drain([this](std::uint64_t token, std::uint64_t mark) {
    if (mark == 0 || segments_->reached(mark))
      take_back(token);
    else
      return_when_reached(token, mark);
  });
  if (!drained && !std::exchange(broken_, true)) ++bad_returns_;
  return drained;
}

void OwnerLink::take_back(std::uint64_t token) noexcept {
  const std::optional<PublishedRef> sample = leases_.take_back(token);
  if (!sample) ++bad_returns_;
  if (sample && *sample) --with_memory_;
}

void OwnerLink::return_when_reached(std::uint64_t token, std::uint64_t mark) noexcept {
  if (returning_.size() == returning_.capacity())
    ++bad_returns_;  // returned twice, or never on a device
  else
    returning_.push_back({token, mark});
}

void OwnerLink::recall() noexcept {
  while (oldest_ != next_) drop_oldest();
}

HeldSamples OwnerLink::held_samples() const noexcept {
  HeldSamples held{.leases = leases_.outstanding()};
  leases_.for_each([&](const PublishedRef& sample, std::uint64_t published_ns) {
    if (sample) held.bytes += sample->bytes_of_each();
    if (held.oldest_published_ns == 0 || published_ns < held.oldest_published_ns)
      held.oldest_published_ns = published_ns;
  });
  return held;
}

LinkReport OwnerLink::report(std::uint64_t wall_ns) {
  (void)in_ring();
  while (oldest_ != next_ && samples_.is_taken(oldest_)) ++oldest_;
  const HeldSamples held = held_samples();
  const auto waiting = std::min(static_cast<std::uint32_t>(next_ - oldest_), held.leases);
  LinkReport report{.subscriber = {borrower_.participant, borrower_.pid},
                    .node = borrower_.node,
                    .depth = limits_.depth,
                    .max_held = limits_.max_held,
                    .reliable = borrower_.reliable,
                    .delivered = next_,
                    .waiting = waiting,
                    .held = held.leases - waiting,
                    .held_bytes = held.bytes,
                    .oldest_held = age_of(held, wall_ns),
                    .dropped_depth = dropped_.depth,
                    .dropped_held = dropped_.held,
                    .dropped_unsent = dropped_.unsent,
                    .cut_off = cut_off_};
  if (borrower_.reliable && blocked_since() && room() != Room::kYes)
    report.blocked = Clock::now() - *blocked_since();
  return report;
}

void OwnerLink::take_all_back() noexcept {
  (void)drain();
  // The borrower may still run, and its streams may still read samples that it has returned.
  for (const Returning& lease : returning_)
    if (auto sample = leases_.take_back(lease.token))
      segments_->keep_until(lease.mark, *std::move(sample));
  returning_.clear();
  leases_ = LeaseTable<PublishedRef>(0);
  with_memory_ = 0;
}

}  // namespace tensorbus::link
