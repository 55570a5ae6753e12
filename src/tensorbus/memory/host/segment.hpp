#pragma once

#include <cstddef>
#include <vector>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/huge_pages.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::memory {

// Owns one memfd of the arena, mapped writable. Pages are reserved before their first use, so that
// writing to a block never fails. What is reserved as a whole huge page at a time lies in one where
// the kernel has one; nothing else does, so that a little takes a little.
class Segment {
 public:
  Segment(SegmentId id, std::size_t bytes, PoolId pool, platform::HugePages huge = {});

  SegmentId id() const noexcept { return id_; }
  PoolId pool() const noexcept { return pool_; }
  std::byte* data() const noexcept { return mapping_.data(); }
  std::size_t bytes() const noexcept { return mapping_.size(); }
  std::size_t reserved_bytes() const noexcept { return reserved_.bytes(); }

  // Returns how many bytes a reservation of `range` would take from the machine.
  std::size_t unreserved_bytes(Range range) const;
  // Returns the range rounded to larger steps, so that small blocks do not cost a system call each.
  Range widened(Range range) const noexcept;
  // Returns the range rounded to whole huge pages if they take at most an eighth more than is
  // reserved here then; else the same as widened().
  Range widened_to_huge_pages(Range range) const;
  // Returns false if the kernel has no pages left; then nothing new is reserved.
  [[nodiscard]] bool reserve(Range range);
  // Gives back pages that lie wholly inside `range`, the last ones first: `wanted_bytes`, rounded
  // up, or all. Fewer if there is no memory to record a gap. With kHuge only whole huge pages, if
  // this segment may have some; with kSmall the kernel splits those of which a part goes.
  void punch(Range range, std::size_t wanted_bytes,
             platform::Pages pages = platform::Pages::kSmall) noexcept;

  // Returns a descriptor for borrowers. One for reading cannot be mapped writable. One for writing
  // is never made if the pool does not allow it.
  platform::Fd descriptor(Grant grant) const;

 private:
  // The result consists of whole pages.
  std::vector<Range> unreserved_in(Range range) const;
  // Takes the pages of a range of which none is reserved.
  bool take_pages(Range range) const;
  void populate(Range range, platform::Pages pages) const noexcept;

  const platform::Inheritable inheritable_{platform::Inheritable::Of::kUs};
  SegmentId id_;
  PoolId pool_;
  platform::HugePages huge_;
  platform::Fd memfd_;
  platform::Mapping mapping_;
  RangeSet reserved_;
};

}  // namespace tensorbus::memory
