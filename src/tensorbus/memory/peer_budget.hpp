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

// What is taken here on behalf of another process.
struct PeerCost {
  std::size_t descriptors = 0;    // open already
  std::size_t mappings = 0;       // of those that a process may have
  std::size_t address_bytes = 0;  // that they span
  std::size_t memory_bytes = 0;   // of queues and internal bookkeeping

  std::array<std::size_t, 4> amounts() const noexcept {
    return {descriptors, mappings, address_bytes, memory_bytes};
  }
};

// Peers together, or one peer, would take more than they may. The text names the limit. What was
// asked for was not taken, and can be when others have gone.
class PeerLimit : public Error {
 public:
  explicit PeerLimit(const std::string& message) : Error(Code::kOutOfMemory, message) {}
};

class PeerBudget;

// One process that something is taken for. Lock-free, since charges go in any thread, and in
// children that were forked meanwhile.
struct PeerUse {
  std::array<std::atomic<std::size_t>, 4> taken{};  // relaxed: counts, which order nothing
};

// Gives back what was taken when it is dropped.
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
  std::shared_ptr<PeerUse> all_;  // null: of nobody
  std::shared_ptr<PeerUse> one_;
  PeerCost cost_;
};

// Who pays for what comes over a connection. Thread-safe.
class PeerAccount {
 public:
  // What is taken for it is not counted: nobody sent it.
  PeerAccount() = default;
  bool is_this_process() const noexcept;
  // Throws PeerLimit.
  PeerCharge take(const PeerCost& cost) const;
  // Looks whether so many more descriptors may be open here. Throws PeerLimit.
  void require_descriptors(std::size_t more) const;

 private:
  friend class PeerBudget;
  std::shared_ptr<PeerBudget> budget_;
  std::shared_ptr<PeerUse> one_;
  pid_t pid_ = 0;
};

// What this process takes for all of its peers together, and for each of them, by process: so that
// neither all nor one of them leave the program, or each other, without descriptors, mappings,
// address space or memory (docs/limits.md). Thread-safe.
class PeerBudget : public std::enable_shared_from_this<PeerBudget> {
 public:
  // The kernel says which process is at the other end of a connected socket. Processes of pid
  // namespaces that are not seen from here count as one.
  PeerAccount account_of(int socket);
  // Before one is opened. Throws PeerLimit.
  void require_descriptors(std::size_t more) const;

 private:
  friend class PeerAccount;
  platform::Mutex mutex_;
  std::map<pid_t, std::weak_ptr<PeerUse>> peers_ TB_GUARDED_BY(mutex_);
  const std::shared_ptr<PeerUse> all_ = std::make_shared<PeerUse>();
};

}  // namespace tensorbus::memory
