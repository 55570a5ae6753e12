#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::link {

// Finds memory lent to this participant by address, so that a received tensor can be passed on
// instead of copied. Thread-safe.
class LeaseIndex {
 public:
  // Returns the lease of these bytes. Empty if they are not lent, may not be passed on, were
  // written to by this process (platform::CopyOnWrite), or are not in the first `max_looks`
  // leases; then the caller copies the bytes.
  static constexpr std::size_t kMaxLooks = 64;
  static constexpr std::size_t kAll = ~std::size_t{0};
  std::optional<Leased> find(const std::byte* first, std::size_t bytes,
                             std::size_t max_looks = kMaxLooks) const;

  // Returns the number of leases of each owner.
  std::map<Id, std::uint64_t> count_by_owner() const;

  // Makes leases of this link's samples findable as long as the link exists.
  void add(const std::shared_ptr<BorrowerLink>& link);
  // Makes this lease findable until remove(). If it throws std::bad_alloc, nothing has changed.
  void add(Lease& lease);
  void remove(const Lease& lease) noexcept;

 private:
  struct Entry {
    Lease* lease;
    std::weak_ptr<Lease> living;
  };

  mutable platform::Mutex mutex_;
  std::vector<std::weak_ptr<BorrowerLink>> links_ TB_GUARDED_BY(mutex_);
  std::multimap<const std::byte*, Entry> by_address_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::link
