#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::memory {

// One memfd of the arena, mapped writable by its owner. Pages are reserved before they are first
// used, so that writing to a block never fails.
class Segment {
 public:
  Segment(SegmentId id, std::size_t bytes, PoolId pool);

  SegmentId id() const noexcept { return id_; }
  PoolId pool() const noexcept { return pool_; }
  std::byte* data() const noexcept { return mapping_.data(); }
  std::size_t bytes() const noexcept { return mapping_.size(); }
  std::size_t reserved_bytes() const noexcept { return reserved_.bytes(); }

  // What a reservation of `range` would take from the machine.
  std::size_t unreserved_bytes(Range range) const;
  // The range in larger steps: reserved at once, small blocks do not cost a system call each.
  Range widened(Range range) const noexcept;
  // False when the kernel has no pages left; then nothing is reserved that was not before.
  [[nodiscard]] bool reserve(Range range);
  // Gives back pages that lie wholly inside `range`, the last ones first: `wanted_bytes`, rounded
  // up, or all that there are; fewer if there is no memory to remember a gap.
  void punch(Range range, std::size_t wanted_bytes) noexcept;

  // A descriptor for borrowers. One for reading cannot be mapped writable, and one for writing is
  // never made of memory for which that is more than may be granted.
  platform::Fd descriptor(Grant grant) const;

 private:
  // Whole pages.
  std::vector<Range> unreserved_in(Range range) const;

  const platform::Inheritable inheritable_{platform::Inheritable::Of::kUs};
  SegmentId id_;
  PoolId pool_;
  platform::Fd memfd_;
  platform::Mapping mapping_;
  RangeSet reserved_;
};

}  // namespace tensorbus::memory
