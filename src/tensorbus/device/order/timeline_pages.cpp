#include "tensorbus/device/order/timeline_pages.hpp"

#include <iterator>
#include <new>
#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::device {
namespace {

platform::Mapping private_page() {
  constexpr std::size_t kBytes = TimelinePages::kBytes / 2;
  const platform::Fd memfd = platform::create_sealed_memfd("tensorbus-passed", kBytes);
  if (!platform::reserve_pages(memfd.get(), 0, kBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for a timeline");
  return {memfd.get(), kBytes, platform::Mapping::Access::kReadWrite};
}

}  // namespace

Mark Mark::unpack(std::uint64_t packed) {
  const Mark mark = of(packed);
  if (mark.slot >= kSlots || (mark.value == 0 && mark.slot != 0))
    throw Error(Code::kProtocol, "timeline: there is no mark " + std::to_string(packed));
  return mark;
}

TimelinePages::TimelinePages(const platform::Fd& memfd, std::size_t own_page,
                             std::shared_ptr<const platform::Fd> peer, bool shared)
    : mapping_(memfd.get(), kBytes, platform::Mapping::Access::kReadWrite),
      own_mapping_(shared ? private_page() : platform::Mapping()),
      own_(page(mapping_, own_page)),
      theirs_(page(mapping_, 1 - own_page)),
      passed_(shared ? page(own_mapping_, 0) : own_),
      peer_(std::move(peer)) {}

std::span<TimelinePages::Counter> TimelinePages::page(const platform::Mapping& mapping,
                                                      std::size_t index) noexcept {
  return {reinterpret_cast<Counter*>(mapping.data()) + index * Mark::kSlots, Mark::kSlots};
}

cu::DevicePtr TimelinePages::address_of(const Counter& counter, const Gpu& device) {
  const bool is_private =
      shared() && &counter >= passed_.data() && &counter < passed_.data() + passed_.size();
  auto& registration = is_private ? own_registration_ : registration_;
  if (!registration) {
    const platform::Mapping& mapping = is_private ? own_mapping_ : mapping_;
    registration.emplace(device, std::span(mapping.data(), mapping.size()));
  }
  return registration->address_of(&counter);
}

void TimelinePages::peer_died() noexcept {
  for (Counter& counter : theirs_) counter.give_up();
  dead_.store(true, std::memory_order_relaxed);
}

bool TimelinePages::failed(Mark mark) const noexcept {
  return mark && theirs(mark.slot).failed(mark.value);
}

void TimelinePages::give_up_broken() noexcept {
  for (std::uint32_t slot = 0; slot < Mark::kSlots; ++slot) {
    const Gpu* const device = device_of_[slot].load(std::memory_order_relaxed);
    if (device == nullptr || !device->is_broken()) continue;
    own(slot).give_up();
    passed(slot).give_up();
  }
}

void TimelinePages::give_up() noexcept {
  for (Counter& counter : own_) counter.give_up();
  for (Counter& counter : passed_) counter.give_up();
}

const platform::Fd* TimelinePages::living_peer() const noexcept {
  return peer_ && *peer_ && !peer_is_dead() ? peer_.get() : nullptr;
}

void TimelinePages::keep_until(Mark theirs, std::shared_ptr<const void> what) {
  std::list<Until> one(1);
  one.front().mark = theirs;
  one.front().what.push_back(std::move(what));
  const platform::MutexLock lock(mutex_);
  until_.splice(until_.end(), one);
}

void TimelinePages::keep_until_passed(std::vector<Mark> own, std::shared_ptr<const void> what) {
  std::list<Passing> one(1);
  one.front().own = std::move(own);
  one.front().what.push_back(std::move(what));
  const platform::MutexLock lock(mutex_);
  passing_.splice(passing_.end(), one);
}

void TimelinePages::keep(std::shared_ptr<const void> what) noexcept {
  const platform::MutexLock lock(mutex_);
  try {
    kept_.push_back(what);
  } catch (const std::bad_alloc&) {
    new (std::nothrow) std::shared_ptr<const void>(std::move(what));  // leaked, not released early
  }
}

void TimelinePages::end(std::vector<Mark> last) noexcept {
  const platform::MutexLock lock(mutex_);
  last_ = std::move(last);
  ended_ = true;
}

bool TimelinePages::tidy() noexcept {
  DeferredReleaser::Kept gone;
  bool empty = false;
  {
    const platform::MutexLock lock(mutex_);
    const auto let_go = [&](auto& items, auto& one) {
      gone.splice(gone.end(), one->what);
      return items.erase(one);
    };
    for (auto at = until_.begin(); at != until_.end();)
      at = reached(at->mark) ? let_go(until_, at) : std::next(at);
    for (auto at = passing_.begin(); at != passing_.end();) {
      std::erase_if(at->own, [this](Mark mark) { return reached_own(mark); });
      at = at->own.empty() ? let_go(passing_, at) : std::next(at);
    }
    if (ended_) std::erase_if(last_, [this](Mark mark) { return reached_own(mark); });
    empty = ended_ && last_.empty() && until_.empty() && passing_.empty();
  }
  DeferredReleaser::let_go(std::move(gone));
  return empty;
}

bool TimelinePages::restless() const noexcept {
  const platform::MutexLock lock(mutex_);
  return ended_ || !until_.empty() || !passing_.empty();
}

}  // namespace tensorbus::device
