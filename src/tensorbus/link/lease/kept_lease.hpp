#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::link {

// A lease that ended here, while a forked child may read what was leased: its token goes back when
// no child does any more.
class KeptLease final : private platform::Inherited {
 public:
  // True: it is kept, or has gone back already. False, and nothing is done: no child has it. It can
  // be found no longer. Without memory it is kept for good.
  static bool keep(std::shared_ptr<LeaseSource>& lender, std::uint64_t token, std::uint64_t mark,
                   platform::ForkEpoch born) noexcept;

  // Of this process.
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
