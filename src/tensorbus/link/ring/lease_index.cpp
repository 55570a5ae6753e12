#include "tensorbus/link/ring/lease_index.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "tensorbus/platform/faults/private_pages.hpp"

namespace tensorbus::link {

// Blocks do not overlap, but views of one block may. A lease more than kMaxLooks entries below an
// address rarely contains that address.
std::optional<Leased> LeaseIndex::find(const std::byte* first, std::size_t bytes,
                                       std::size_t max_looks) const {
  if (platform::CopyOnWrite::is_private({first, bytes})) return std::nullopt;
  std::vector<std::shared_ptr<Lease>> seen;  // released after the mutex
  std::vector<std::shared_ptr<BorrowerLink>> links;
  const platform::MutexLock lock(mutex_);
  seen.reserve(std::min(max_looks, by_address_.size()));
  // Places may overlap, and several leases may hold one block. Each of them is a correct result.
  auto at = by_address_.upper_bound(first);
  for (std::size_t looks = 0; at != by_address_.begin() && looks < max_looks; ++looks) {
    --at;
    std::shared_ptr<Lease> lease = at->second.living.lock();
    if (!lease) continue;
    if (const auto place = lease->place_of(first, bytes)) return Leased{std::move(lease), *place};
    seen.push_back(std::move(lease));
  }
  for (const auto& weak : links_) {
    std::shared_ptr<BorrowerLink> link = weak.lock();
    if (!link) continue;
    if (auto found = link->find_lease(first, bytes)) return found;
    links.push_back(std::move(link));
  }
  return std::nullopt;
}

std::map<Id, std::uint64_t> LeaseIndex::count_by_owner() const {
  std::map<Id, std::uint64_t> counts;
  std::set<const Lease*> counted;            // a lease has an entry for each place
  std::vector<std::shared_ptr<Lease>> seen;  // released after the mutex
  std::vector<std::shared_ptr<BorrowerLink>> links;
  const platform::MutexLock lock(mutex_);
  for (const auto& weak : links_) {
    const auto& link = links.emplace_back(weak.lock());
    const std::uint32_t leases = link ? link->outstanding() : 0;
    if (leases != 0) counts[link->source()->participant] += leases;
  }
  for (const auto& [address, entry] : by_address_)
    if (const auto& lease = seen.emplace_back(entry.living.lock());
        lease && counted.insert(lease.get()).second)
      ++counts[lease->places().begin()->owner];
  return counts;
}

void LeaseIndex::add(const std::shared_ptr<BorrowerLink>& link) {
  const platform::MutexLock lock(mutex_);
  std::erase_if(links_, [](const auto& weak) { return weak.expired(); });
  links_.push_back(link);
}

void LeaseIndex::add(Lease& lease) {
  decltype(by_address_) fresh;
  for (const Place& place : lease.places())
    fresh.emplace(place.begin, Entry{&lease, lease.weak_from_this()});
  const platform::MutexLock lock(mutex_);
  by_address_.merge(fresh);
}

void LeaseIndex::remove(const Lease& lease) noexcept {
  const platform::MutexLock lock(mutex_);
  for (const Place& place : lease.places()) {
    const auto [begin, end] = by_address_.equal_range(place.begin);
    const auto found =
        std::find_if(begin, end, [&](const auto& item) { return item.second.lease == &lease; });
    if (found != end) by_address_.erase(found);
  }
}

}  // namespace tensorbus::link
