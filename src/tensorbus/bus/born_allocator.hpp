#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tensorbus/values/layout.hpp>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Memory of arrays that are born on the bus: blocks of a participant's arena, each like a loan
// without a publisher. Publishing bytes in such a block is like publishing a loan; where that is
// impossible (another participant, another pool) they are copied like any other bytes.
//
// For the whole process; thread-safe. A block is released once, by its first byte. A forked child
// allocates no blocks, and leaves the inherited ones to its parent.
class TENSORBUS_API BornAllocator {
 public:
  explicit BornAllocator(const Participant& participant);

  // Returns uncleared bytes that begin on a page; null if there is no room, or the participant is
  // gone. The failure is counted, and the caller takes other memory.
  void* allocate(std::size_t bytes) noexcept;

  // Returns the bytes of the block that begins here; 0 if none does.
  static std::size_t bytes_at(const void* first) noexcept;
  // Returns false if no block begins here.
  static bool release(const void* first) noexcept;

  struct Use {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
    std::uint64_t born = 0;       // since the process started
    std::uint64_t elsewhere = 0;  // allocations for which there was no room
  };
  static Use use() noexcept;

 private:
  std::weak_ptr<ParticipantCore> core_;
  std::uint32_t fork_generation_;
};

// Returns such memory as a loan. Throws Error(kOutOfMemory), which is counted.
TENSORBUS_API Loan born(const Layout& layout, const Participant& participant);

}  // namespace tensorbus::bus
