#include "tensorbus/memory/timeline_pages.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {
namespace {

// More than any mark: GPUs compare by the sign of the difference.
constexpr std::uint64_t kReleased = std::uint64_t{1} << 62;

}  // namespace

Mark Mark::unpack(std::uint64_t packed) {
  const Mark mark = of(packed);
  if (mark.slot >= kSlots || (mark.value == 0 && mark.slot != 0))
    throw Error(Code::kProtocol, "timeline: there is no mark " + std::to_string(packed));
  return mark;
}

TimelinePages::TimelinePages(const platform::Fd& memfd, std::size_t own_page,
                             std::shared_ptr<const platform::Fd> peer)
    : mapping_(memfd.get(), kBytes, platform::Mapping::Access::kReadWrite),
      own_(page(own_page)),
      theirs_(page(1 - own_page)),
      peer_(std::move(peer)) {}

std::span<TimelinePages::Counter> TimelinePages::page(std::size_t index) const noexcept {
  return {reinterpret_cast<Counter*>(mapping_.data()) + index * Mark::kSlots, Mark::kSlots};
}

const platform::HostRegistration& TimelinePages::registered(const platform::CudaDevice& device) {
  if (!registration_) registration_.emplace(device, std::span(mapping_.data(), mapping_.size()));
  return *registration_;
}

void TimelinePages::peer_died() noexcept {
  if (dying_.exchange(true, std::memory_order_relaxed)) return;
  // Exchanged, not read and written: nobody but us writes them now, other than somebody who lies.
  for (std::uint32_t slot = 0; slot < Mark::kSlots; ++slot)
    at_death_[slot] = theirs(slot).exchange(kReleased, std::memory_order_acq_rel);
  // Release: pairs with the load in failed(), which reads at_death_.
  dead_.store(true, std::memory_order_release);
}

bool TimelinePages::failed(Mark mark) const noexcept {
  return mark && dead_.load(std::memory_order_acquire) && at_death_[mark.slot] < mark.value;
}

const platform::Fd* TimelinePages::living_peer() const noexcept {
  return peer_ && *peer_ && !dead_.load(std::memory_order_acquire) ? peer_.get() : nullptr;
}

void TimelinePages::keep_until(Mark theirs, std::shared_ptr<const void> what) {
  const std::lock_guard lock(mutex_);
  until_.emplace_back(theirs, std::move(what));
}

void TimelinePages::keep_until_passed(std::vector<Mark> own, std::shared_ptr<const void> what) {
  std::list<Passing> one;
  one.push_back({std::move(own), std::move(what)});
  const std::lock_guard lock(mutex_);
  passing_.splice(passing_.end(), one);
}

void TimelinePages::keep(std::shared_ptr<const void> what) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    kept_.push_back(what);
  } catch (const std::bad_alloc&) {
    new (std::nothrow) std::shared_ptr<const void>(std::move(what));  // for good, rather than early
  }
}

void TimelinePages::end(std::vector<Mark> last) noexcept {
  const std::lock_guard lock(mutex_);
  last_ = std::move(last);
  ended_ = true;
}

bool TimelinePages::tidy() noexcept {
  decltype(until_) gone;  // goes without our mutex
  decltype(passing_) passed;
  const std::lock_guard lock(mutex_);
  const auto first = std::partition(until_.begin(), until_.end(),
                                    [this](const auto& item) { return !reached(item.first); });
  try {
    gone.assign(std::make_move_iterator(first), std::make_move_iterator(until_.end()));
    until_.erase(first, until_.end());
  } catch (const std::bad_alloc&) {
    return false;  // another time
  }
  for (auto at = passing_.begin(); at != passing_.end();) {
    const auto one = at++;
    std::erase_if(one->own, [this](Mark mark) { return reached_own(mark); });
    if (one->own.empty()) passed.splice(passed.end(), passing_, one);
  }
  if (!ended_) return false;
  std::erase_if(last_, [this](Mark mark) { return reached_own(mark); });
  return last_.empty() && until_.empty() && passing_.empty();
}

bool TimelinePages::restless() const noexcept {
  const std::lock_guard lock(mutex_);
  return ended_ || !until_.empty() || !passing_.empty();
}

}  // namespace tensorbus::memory
