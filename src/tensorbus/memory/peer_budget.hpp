#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {

// Resources that this process uses on behalf of a peer process.
struct PeerCost {
  std::size_t descriptors = 0;    // already open
  std::size_t mappings = 0;       // counts against vm.max_map_count
  std::size_t address_bytes = 0;  // spanned by the mappings
  std::size_t memory_bytes = 0;   // of queues and internal bookkeeping

  std::array<std::size_t, 4> amounts() const noexcept {
    return {descriptors, mappings, address_bytes, memory_bytes};
  }
};

// Thrown if all peers together, or one peer, would exceed their budget. The text names the limit.
// Nothing was taken; a later attempt can succeed when other peers have ended.
class PeerLimit : public Error {
 public:
  explicit PeerLimit(const std::string& message) : Error(Code::kOutOfMemory, message) {}
};

class PeerBudget;

// The amounts charged to one process. Lock-free: charges end in any thread, and in children forked
// meanwhile.
struct PeerUse {
  std::array<std::atomic<std::size_t>, 4> taken{};  // relaxed: counts, which order nothing
};

// Owns a charged amount; its destructor returns it.
class PeerCharge {
 public:
  PeerCharge() = default;
  PeerCharge(PeerCharge&& other) noexcept = default;
  PeerCharge& operator=(PeerCharge&& other) noexcept {
    std::swap(all_, other.all_);
    std::swap(one_, other.one_);
    std::swap(cost_, other.cost_);
    return *this;
  }
  ~PeerCharge();

 private:
  friend class PeerAccount;
  std::shared_ptr<PeerUse> all_;  // null: nothing is charged
  std::shared_ptr<PeerUse> one_;
  PeerCost cost_;
};

// Charges a peer for resources that arrive over its connection. Thread-safe.
class PeerAccount {
 public:
  // Uncharged: for resources that were not received from a peer.
  PeerAccount() = default;
  bool is_this_process() const noexcept;
  pid_t pid() const noexcept { return pid_; }  // in the pid namespace of this process
  // Throws PeerLimit.
  PeerCharge take(const PeerCost& cost) const;
  // Throws PeerLimit if this many more descriptors may not be opened on behalf of a peer.
  void require_descriptors(std::size_t more) const;

 private:
  friend class PeerBudget;
  std::shared_ptr<PeerBudget> budget_;
  std::shared_ptr<PeerUse> one_;
  pid_t pid_ = 0;
};

// Limits the resources that this process takes for all peers together and for each peer process. So
// peers cannot leave the program or other peers without descriptors, mappings, address space or
// memory (docs/limits.md). Thread-safe.
class PeerBudget : public std::enable_shared_from_this<PeerBudget> {
 public:
  // Returns the account of the process at the other end of a connected socket; the kernel
  // identifies it. Processes of pid namespaces that are not visible here share one account.
  PeerAccount account_of(int socket);
  // Called before a descriptor is opened. Throws PeerLimit.
  void require_descriptors(std::size_t more) const;

 private:
  friend class PeerAccount;
  platform::Mutex mutex_;
  std::map<pid_t, std::weak_ptr<PeerUse>> peers_ TB_GUARDED_BY(mutex_);
  const std::shared_ptr<PeerUse> all_ = std::make_shared<PeerUse>();
};

}  // namespace tensorbus::memory
