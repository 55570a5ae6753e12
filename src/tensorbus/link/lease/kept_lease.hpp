#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::link {

// A lease that has ended in this process while a forked child may still read its memory. Its token
// is returned when no child can read it any more.
class KeptLease final : private platform::Inherited {
 public:
  // Keeps a lease that can no longer be found. Returns true if it is kept or was returned already;
  // false, without any effect, if no child has it. Without memory for the record, keeps it forever.
  static bool keep(std::shared_ptr<LeaseSource>& lender, std::uint64_t token, std::uint64_t mark,
                   platform::ForkEpoch born) noexcept;

  // Returns how many leases this process keeps.
  static std::size_t count() noexcept;

 private:
  KeptLease(const std::shared_ptr<LeaseSource>& lender, std::uint64_t token, std::uint64_t mark,
            platform::ForkEpoch born) noexcept;
  ~KeptLease() = default;
  void let_go() noexcept override;

  const std::shared_ptr<LeaseSource> lender_;
  const std::uint64_t token_;
  const std::uint64_t mark_;
};

}  // namespace tensorbus::link
