#include "tensorbus/link/lease/kept_lease.hpp"

#include <atomic>
#include <new>
#include <utility>

#include "tensorbus/platform/leak.hpp"

namespace tensorbus::link {
namespace {

// A parent's count is not valid in its child. Relaxed: counts.
std::atomic<std::size_t> kept{0};
std::atomic<std::uint32_t> kept_in{0};

void count_one() noexcept {
  const std::uint32_t here = platform::fork_generation();
  if (kept_in.exchange(here, std::memory_order_relaxed) != here)
    kept.store(0, std::memory_order_relaxed);
  kept.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

KeptLease::KeptLease(const std::shared_ptr<LeaseSource>& lender, std::uint64_t token,
                     std::uint64_t mark, platform::ForkEpoch born) noexcept
    : lender_(lender), token_(token), mark_(mark) {
  be_born(born);
}

bool KeptLease::keep(std::shared_ptr<LeaseSource>& lender, std::uint64_t token, std::uint64_t mark,
                     platform::ForkEpoch born) noexcept {
  auto* const lease = new (std::nothrow) KeptLease(lender, token, mark, born);
  if (lease == nullptr) {
    platform::leak(std::move(lender));  // allocates nothing, unlike platform::abandon()
    count_one();
    return true;
  }
  count_one();
  if (platform::keep_for_children(*lease)) return true;
  kept.fetch_sub(1, std::memory_order_relaxed);
  delete lease;
  return false;
}

void KeptLease::let_go() noexcept {
  lender_->give_back(token_, mark_);
  kept.fetch_sub(1, std::memory_order_relaxed);
  delete this;
}

std::size_t KeptLease::count() noexcept {
  if (kept_in.load(std::memory_order_relaxed) != platform::fork_generation()) return 0;
  return kept.load(std::memory_order_relaxed);
}

}  // namespace tensorbus::link
