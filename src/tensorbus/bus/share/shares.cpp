#include "tensorbus/bus/share/shares.hpp"

#include <cstring>
#include <tensorbus/values/id.hpp>
#include <vector>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

std::uint64_t random_key() {
  std::uint64_t key = 0;
  std::memcpy(&key, Id::random().bytes.data(), sizeof key);
  return key;
}

}  // namespace

Shares::Added Shares::add(Offer offer, std::uint32_t uses, Clock::time_point until,
                          std::uint64_t carrier) {
  const std::uint64_t key = random_key();
  const platform::MutexLock lock(mutex_);
  Share share{std::move(offer), key, {}, until, carrier};
  if (uses != 0) share.uses_left = uses;
  const auto added = shares_.emplace(next_, std::move(share)).first;
  bool ends_first = false;
  if (until != Clock::time_point::max()) {
    try {
      const auto end = ends_.emplace(until, next_).first;
      ends_first = end == ends_.begin();
    } catch (...) {
      shares_.erase(added);
      throw;
    }
  }
  return {{next_++, key}, ends_first};
}

void Shares::keep(const Name& name, Offer offer, std::uint64_t carrier) {
  Table kept;  // a share that the table does not take is destroyed without the mutex
  kept.emplace(name.number,
               Share{std::move(offer), name.key, 1, Clock::time_point::max(), carrier});
  const platform::MutexLock lock(mutex_);
  shares_.merge(kept);
}

void Shares::drop(const Name& name) noexcept {
  Table::node_type dropped;
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(name.number);
  if (found != shares_.end() && found->second.key == name.key) dropped = take_out(found);
}

void Shares::kept_by(std::uint64_t number, std::shared_ptr<Elsewhere> elsewhere) noexcept {
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(number);
  if (found != shares_.end()) found->second.elsewhere.swap(elsewhere);
}

void Shares::leave_to_keepers() noexcept {
  const platform::MutexLock lock(mutex_);
  for (auto& [number, share] : shares_)
    if (share.elsewhere) share.elsewhere->leave();
}

void Shares::close_carried_by(std::uint64_t carrier) noexcept {
  if (carrier == 0) return;
  Table closed;
  const platform::MutexLock lock(mutex_);
  for (auto next = shares_.begin(); next != shares_.end();) {
    const auto share = next++;
    if (share->second.carrier == carrier) closed.insert(take_out(share));
  }
}

std::set<std::uint64_t> Shares::carriers(std::chrono::nanoseconds open_for) const {
  std::set<std::uint64_t> found;
  const Clock::time_point opened_before = Clock::now() - open_for;
  const platform::MutexLock lock(mutex_);
  for (const auto& [number, share] : shares_)
    if (share.carrier != 0 && share.since <= opened_before) found.insert(share.carrier);
  return found;
}

std::set<std::uint64_t> Shares::unkept() const {
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Elsewhere>>> kept;
  {
    const platform::MutexLock lock(mutex_);
    for (const auto& [number, share] : shares_)
      if (share.elsewhere && share.open()) kept.emplace_back(share.carrier, share.elsewhere);
  }
  std::set<std::uint64_t> found;
  for (const auto& [carrier, elsewhere] : kept)
    if (!elsewhere->has_it()) found.insert(carrier);
  return found;
}

Shares::Offer Shares::find(const Name& name, memory::Grant grant) const {
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(name.number);
  if (found == shares_.end()) {
    if (name.number != 0 && (name.number < next_ || (name.number & kKept) != 0))
      throw Error(Code::kClosed,
                  "the tensors are no longer shared: their owner closed the share, or its uses or "
                  "its ttl ran out");
    throw Error(Code::kInvalidArgument, "invalid handle: its owner has no share of this number");
  }
  if (found->second.key != name.key)
    throw Error(Code::kInvalidArgument, "invalid handle: its key is wrong");
  if (!found->second.open())
    throw Error(Code::kClosed, "the tensors are no longer shared: the uses or the ttl ran out");
  if (grant > found->second.offer.max_grant)
    throw Error(Code::kPermission,
                "the share is read-only: share it with shared=True, or attach with access read or "
                "private");
  return found->second.offer;
}

void Shares::count_use(std::uint64_t number) noexcept {
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(number);
  if (found != shares_.end() && found->second.uses_left) --*found->second.uses_left;
}

void Shares::undo_use(std::uint64_t number) noexcept {
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(number);
  if (found != shares_.end() && found->second.uses_left) ++*found->second.uses_left;
}

void Shares::end_if_spent(std::uint64_t number) noexcept {
  {
    const platform::MutexLock lock(mutex_);
    const auto found = shares_.find(number);
    if (found == shares_.end() || found->second.uses_left != 0U) return;
  }
  close(number);
}

Shares::Table::node_type Shares::take_out(Table::iterator share) noexcept {
  ends_.erase({share->second.until, share->first});
  return shares_.extract(share);
}

void Shares::close(std::uint64_t number) noexcept {
  Table::node_type closed;
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(number);
  if (found != shares_.end()) closed = take_out(found);
}

bool Shares::open(std::uint64_t number) const {
  const platform::MutexLock lock(mutex_);
  const auto found = shares_.find(number);
  return found != shares_.end() && found->second.open();
}

std::vector<ShareReport> Shares::report() const {
  std::vector<ShareReport> all;
  const platform::MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (const auto& [number, share] : shares_)
    if ((number & kKept) == 0 && share.open())
      all.push_back({number, share.offer.issued ? share.offer.issued->bytes() : 0,
                     share.uses_left.value_or(0), now - share.since});
  return all;
}

std::optional<Shares::Clock::time_point> Shares::end_overdue() noexcept {
  Table overdue;
  const platform::MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  while (!ends_.empty() && ends_.begin()->first <= now)
    overdue.insert(take_out(shares_.find(ends_.begin()->second)));
  if (ends_.empty()) return std::nullopt;
  return ends_.begin()->first;
}

}  // namespace tensorbus::bus
