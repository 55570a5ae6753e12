#pragma once

#include <cstddef>
#include <vector>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::memory {

// Owns one memfd of the arena, mapped writable. Pages are reserved before their first use, so that
// writing to a block never fails.
class Segment {
 public:
  Segment(SegmentId id, std::size_t bytes, PoolId pool);

  SegmentId id() const noexcept { return id_; }
  PoolId pool() const noexcept { return pool_; }
  std::byte* data() const noexcept { return mapping_.data(); }
  std::size_t bytes() const noexcept { return mapping_.size(); }
  std::size_t reserved_bytes() const noexcept { return reserved_.bytes(); }

  // Returns how many bytes a reservation of `range` would take from the machine.
  std::size_t unreserved_bytes(Range range) const;
  // Returns the range rounded to larger steps, so that small blocks do not cost a system call each.
  Range widened(Range range) const noexcept;
  // Returns false if the kernel has no pages left; then nothing new is reserved.
  [[nodiscard]] bool reserve(Range range);
  // Gives back pages that lie wholly inside `range`, the last ones first: `wanted_bytes`, rounded
  // up, or all. Fewer if there is no memory to record a gap.
  void punch(Range range, std::size_t wanted_bytes) noexcept;

  // Returns a descriptor for borrowers. One for reading cannot be mapped writable. One for writing
  // is never made if the pool does not allow it.
  platform::Fd descriptor(Grant grant) const;

 private:
  // The result consists of whole pages.
  std::vector<Range> unreserved_in(Range range) const;

  const platform::Inheritable inheritable_{platform::Inheritable::Of::kUs};
  SegmentId id_;
  PoolId pool_;
  platform::Fd memfd_;
  platform::Mapping mapping_;
  RangeSet reserved_;
};

}  // namespace tensorbus::memory
