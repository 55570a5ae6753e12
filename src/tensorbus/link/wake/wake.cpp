#include "tensorbus/link/wake/wake.hpp"

#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/waiting/life_word.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"

namespace tensorbus::link {
namespace {

WakePageHeader& header_of(const platform::Mapping& page) noexcept {
  return *reinterpret_cast<WakePageHeader*>(page.data());
}
WakeSlot& slot_of(const platform::Mapping& page, std::uint32_t index) noexcept {
  return reinterpret_cast<WakeSlot*>(page.data() + sizeof(WakePageHeader))[index];
}

}  // namespace

WakePage::WakePage()
    : memfd_(platform::create_sealed_memfd("tensorbus-wake", kWakePageBytes)),
      mapping_(memfd_.get(), kWakePageBytes, platform::Mapping::Access::kReadWrite) {
  returned_.reserve(kWakeSlots);  // so that returning a slot allocates nothing
}

std::uint32_t WakePage::take_slot() {
  const platform::MutexLock lock(mutex_);
  if (!returned_.empty()) {
    const std::uint32_t index = returned_.back();
    returned_.pop_back();
    return index;
  }
  if (next_ == kWakeSlots)
    throw Error(Code::kOutOfMemory, "a participant can have at most " + std::to_string(kWakeSlots) +
                                        " publishers and subscribers at a time: close some");
  return next_++;
}

void WakePage::give_back_slot(std::uint32_t index) noexcept {
  const platform::MutexLock lock(mutex_);
  returned_.push_back(index);
}

WakeSlot& WakePage::slot(std::uint32_t index) const noexcept { return slot_of(mapping_, index); }

void WakePage::mark_alive() noexcept { platform::mark_alive(header_of(mapping_).life); }

PeerWakePage map_peer_wake_page(const platform::Fd& memfd) {
  platform::verify_sealed_memfd(memfd.get(), kWakePageBytes, "HELLO.wake_page");
  return std::make_shared<const platform::Mapping>(memfd.get(), kWakePageBytes,
                                                   platform::Mapping::Access::kReadWrite);
}

bool marked_alive(const platform::Mapping& page) noexcept {
  return platform::marked_alive(header_of(page).life);
}

Sleeper::Sleeper(std::shared_ptr<WakePage> page)
    : page_(std::move(page)), index_(page_->take_slot()) {
  slot().sleeping.store(0, std::memory_order_relaxed);
}

Sleeper::~Sleeper() {
  slot().sleeping.store(0, std::memory_order_relaxed);
  page_->give_back_slot(index_);
}

void Sleeper::enter(std::uint32_t how) noexcept {
  const platform::MutexLock lock(mutex_);
  if (how == kSleepsOnFutex)
    ++parked_;
  else
    armed_ = how;
  slot().sleeping.store((parked_ > 0 ? kSleepsOnFutex : 0) | armed_, std::memory_order_relaxed);
  // Pairs with the waker's fence: the waker sees `sleeping`, or this thread sees the waker's entry.
  full_fence();
}

void Sleeper::leave(std::uint32_t how) noexcept {
  const platform::MutexLock lock(mutex_);
  if (how == kSleepsOnFutex)
    --parked_;
  else
    armed_ = 0;
  slot().sleeping.store((parked_ > 0 ? kSleepsOnFutex : 0) | armed_, std::memory_order_relaxed);
}

void Sleeper::wake_own() noexcept {
  slot().wake.fetch_add(1, std::memory_order_release);  // pairs with the acquire in wakes()
  platform::futex_wake_all(slot().wake);
}

Waker::Waker(PeerWakePage page, std::uint32_t index) : page_(std::move(page)) {
  if (index >= kWakeSlots)
    throw Error(Code::kProtocol,
                "wake_slot: " + std::to_string(index) + " of " + std::to_string(kWakeSlots));
  slot_ = &slot_of(*page_, index);
}

void Waker::wake(std::uint32_t sleeping) noexcept {
  if ((sleeping & kSleepsOnFutex) != 0) {
    // Relaxed: the sleeper checks again after its fence, which comes after the caller's.
    slot_->wake.fetch_add(1, std::memory_order_relaxed);
    platform::futex_wake_all(slot_->wake);
  }
  if ((sleeping & kSleepsOnEvent) != 0 && notifier_) platform::notify(notifier_.get());
}

}  // namespace tensorbus::link
