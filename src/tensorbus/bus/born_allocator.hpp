#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tensorbus/values/layout.hpp>

#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Allocates arrays on the bus. Each array is a block of a participant's arena, like a loan without
// a publisher, and is published like a loan. If that is impossible (another participant, another
// pool), its bytes are copied like any other bytes.
//
// The static functions find the blocks of all participants of the process. Thread-safe. A block is
// released once, by the address of its first byte. In a forked child, an inherited allocator
// allocates no blocks, and inherited blocks stay with the parent.
class TENSORBUS_API BornAllocator {
 public:
  explicit BornAllocator(const ParticipantRef& participant);

  // Returns uncleared bytes that begin at a page; null if there is no room, or if the participant
  // is gone. The failure is counted, and the caller uses other memory.
  void* allocate(std::size_t bytes) noexcept;

  // Returns the size of the block that begins at this address; 0 if there is none.
  static std::size_t bytes_at(const void* first) noexcept;
  // Returns false if no block begins at this address.
  static bool release(const void* first) noexcept;

  struct Use {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
    std::uint64_t born = 0;       // since the process started
    std::uint64_t elsewhere = 0;  // allocations that failed
  };
  static Use use() noexcept;

 private:
  std::weak_ptr<Participant> core_;
  std::uint32_t fork_generation_;
};

// Returns this kind of memory as a loan. Throws Error(kOutOfMemory), and counts it in
// Use::elsewhere.
TENSORBUS_API Loan born(const Layout& layout, const ParticipantRef& participant);

}  // namespace tensorbus::bus
