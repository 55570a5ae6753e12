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

// What others have lent to this participant, to be found by its address: so a tensor that was
// received can be handed on instead of copied. Thread-safe.
class LeaseIndex {
 public:
  // The lease of these bytes. Empty if they are not lent, or not for others to have, or it is not
  // among the first `most_looks`: who does not find it copies them.
  static constexpr std::size_t kMostLooks = 64;
  static constexpr std::size_t kAll = ~std::size_t{0};
  std::optional<Leased> find(const std::byte* first, std::size_t bytes,
                             std::size_t most_looks = kMostLooks) const;

  // Leases of this link's samples are found as long as there are any.
  void add(const std::shared_ptr<BorrowerLink>& link);
  // This lease is found until it is removed. Throws std::bad_alloc, and then has done nothing.
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
