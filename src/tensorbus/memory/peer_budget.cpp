#include "tensorbus/memory/peer_budget.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::memory {
namespace {

enum Kind : std::size_t { kDescriptors, kMappings, kAddressBytes, kMemoryBytes };

constexpr std::size_t kMaxMemory = std::size_t{1} << 30;
constexpr std::size_t kAddresses = std::size_t{1} << 47;  // of a process on the supported platforms
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

std::size_t rlimit_of(platform::ResourceLimit which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_cur;
}

// The first caller reads the value, or several callers do so concurrently. A local static is not
// used: a child forked during its initialization would wait for its lock forever.
std::size_t max_mappings() {
  static std::atomic<std::size_t> known{0};  // relaxed: it orders nothing
  std::size_t most = known.load(std::memory_order_relaxed);
  if (most != 0) return most;
  most = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  known.store(most, std::memory_order_relaxed);
  return most;
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * platform::page_bytes();
}

std::size_t three_quarters(std::size_t of) { return of / 4 * 3 + of % 4 * 3 / 4; }

std::size_t limit_of(Kind kind) {
  switch (kind) {
    case kDescriptors:
      return rlimit_of(RLIMIT_NOFILE);
    case kMappings:
      return max_mappings();
    case kAddressBytes:
      return std::min(kAddresses, rlimit_of(RLIMIT_AS));
    case kMemoryBytes:
      break;
  }
  return machine_memory();
}

// Returns the part of the limit that all peers together may use. The last descriptors are reserved
// for the program (platform::open_descriptors).
std::size_t share_of_all(Kind kind) {
  const std::size_t limit = limit_of(kind);
  if (kind == kDescriptors) return limit - limit / 16;
  return kind == kMemoryBytes ? std::min(kMaxMemory, limit / 4) : three_quarters(limit);
}

std::string name_of(Kind kind) {
  const std::string value = std::to_string(limit_of(kind));
  switch (kind) {
    case kDescriptors:
      return "descriptors (RLIMIT_NOFILE is " + value + ", ulimit -n)";
    case kMappings:
      return "mappings (vm.max_map_count is " + value + ")";
    case kAddressBytes:
      return "bytes of address space (RLIMIT_AS, ulimit -v, or the processor leave " + value + ")";
    case kMemoryBytes:
      break;
  }
  return "bytes of memory for queues (depth, max_held)";
}

[[noreturn]] void refuse(const std::string& whose, std::size_t most, Kind kind) {
  throw PeerLimit(whose + " reached the limit of " + std::to_string(most) + " " + name_of(kind) +
                  " of this process: close some subscribers or publishers, request less, or raise "
                  "the limit");
}

void give_back(PeerUse& use, const PeerCost& cost) noexcept {
  const auto amounts = cost.amounts();
  for (std::size_t i = 0; i < amounts.size(); ++i)
    use.taken[i].fetch_sub(amounts[i], std::memory_order_relaxed);
}

// Takes all amounts. Returns true if one of them is too much, and sets `kind` to it.
bool exceeds(PeerUse& use, const PeerCost& cost, Kind& kind, bool one) {
  const auto amounts = cost.amounts();
  bool too_much = false;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    if (amounts[i] == 0) continue;
    const std::size_t all = share_of_all(static_cast<Kind>(i));
    const std::size_t taken =
        use.taken[i].fetch_add(amounts[i], std::memory_order_relaxed) + amounts[i];
    if (taken <= (one ? three_quarters(all) : all)) continue;
    kind = static_cast<Kind>(i);
    too_much = true;
  }
  return too_much;
}

void require_room_for(std::size_t more) {
  const std::size_t limit = limit_of(kDescriptors);
  if (limit == kUnlimited) return;
  if (platform::open_descriptors() + more <= share_of_all(kDescriptors)) return;
  throw PeerLimit("RLIMIT_NOFILE is " + std::to_string(limit) + " (ulimit -n), and the last " +
                  std::to_string(limit / 16) +
                  " descriptors are not for other processes: close some, or raise the limit");
}

}  // namespace

PeerCharge::~PeerCharge() {
  if (!all_) return;
  give_back(*all_, cost_);
  give_back(*one_, cost_);
}

bool PeerAccount::is_this_process() const noexcept { return pid_ == ::getpid(); }

PeerCharge PeerAccount::take(const PeerCost& cost) const {
  PeerCharge charge;
  if (!budget_) return charge;
  if (cost.descriptors != 0) require_descriptors(0);
  Kind kind{};
  if (exceeds(*one_, cost, kind, true)) {
    give_back(*one_, cost);
    refuse("process " + std::to_string(pid_), three_quarters(share_of_all(kind)), kind);
  }
  if (exceeds(*budget_->all_, cost, kind, false)) {
    give_back(*one_, cost);
    give_back(*budget_->all_, cost);
    refuse("all other processes together", share_of_all(kind), kind);
  }
  charge.all_ = budget_->all_;
  charge.one_ = one_;
  charge.cost_ = cost;
  return charge;
}

void PeerAccount::require_descriptors(std::size_t more) const {
  if (budget_ && !is_this_process()) require_room_for(more);
}

void PeerBudget::require_descriptors(std::size_t more) const { require_room_for(more); }

PeerAccount PeerBudget::account_of(int socket) {
  PeerAccount account;
  account.pid_ = platform::peer_credentials(socket).pid;
  const platform::MutexLock lock(mutex_);
  std::erase_if(peers_, [](const auto& peer) { return peer.second.expired(); });
  std::weak_ptr<PeerUse>& known = peers_[account.pid_];
  account.one_ = known.lock();
  if (!account.one_) known = account.one_ = std::make_shared<PeerUse>();
  account.budget_ = shared_from_this();
  return account;
}

}  // namespace tensorbus::memory
