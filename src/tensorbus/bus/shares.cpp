#include "tensorbus/bus/shares.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/id.hpp"

namespace tensorbus::bus {
namespace {

std::uint64_t random_key() {
  std::uint64_t key = 0;
  std::memcpy(&key, Id::random().bytes.data(), sizeof key);
  return key;
}

}  // namespace

Shares::Name Shares::add(Offer offer, std::uint32_t uses, Clock::time_point until) {
  const std::uint64_t key = random_key();
  const std::lock_guard lock(mutex_);
  Share share{std::move(offer), key, {}, until};
  if (uses != 0) share.uses_left = uses;
  shares_.emplace(next_, std::move(share));
  return {next_++, key};
}

Shares::Offer Shares::find(const Name& name, memory::Grant grant) const {
  const std::lock_guard lock(mutex_);
  const auto found = shares_.find(name.number);
  if (found == shares_.end()) {
    if (name.number != 0 && name.number < next_)
      throw Error(Code::kClosed,
                  "it is no longer shared: its owner has closed it, or its uses or its time are "
                  "spent");
    throw Error(Code::kInvalidArgument, "its owner never shared anything under this number");
  }
  if (found->second.key != name.key)
    throw Error(Code::kInvalidArgument, "its key does not fit: it was made up, or damaged");
  if (!found->second.open())
    throw Error(Code::kClosed, "it is no longer shared: its uses or its time are spent");
  if (grant > found->second.offer.most_granted)
    throw Error(Code::kPermission,
                "it is not shared to be written: share it with shared=True, or attach with access "
                "read or private");
  return found->second.offer;
}

void Shares::count_use(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = shares_.find(number);
  if (found != shares_.end() && found->second.uses_left) --*found->second.uses_left;
}

void Shares::undo_use(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = shares_.find(number);
  if (found != shares_.end() && found->second.uses_left) ++*found->second.uses_left;
}

void Shares::end_if_spent(std::uint64_t number) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(number);
    if (found == shares_.end() || found->second.uses_left != 0U) return;
  }
  close(number);
}

void Shares::close(std::uint64_t number) noexcept {
  Share closed;
  const std::lock_guard lock(mutex_);
  const auto found = shares_.find(number);
  if (found == shares_.end()) return;
  closed = std::move(found->second);
  shares_.erase(found);
}

bool Shares::open(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = shares_.find(number);
  return found != shares_.end() && found->second.open();
}

std::optional<Shares::Clock::time_point> Shares::end_overdue() noexcept {
  std::map<std::uint64_t, Share> overdue;
  std::optional<Clock::time_point> next;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (auto at = shares_.begin(); at != shares_.end();) {
    const auto share = at++;
    const Clock::time_point until = share->second.until;
    if (until <= now)
      overdue.insert(shares_.extract(share));
    else if (until != Clock::time_point::max())
      next = std::min(next.value_or(until), until);
  }
  return next;
}

}  // namespace tensorbus::bus
