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
// writing to a block never fails. Reservations of whole huge pages get huge pages where the kernel
// has some. Smaller ones do not, so that a small block takes little memory.
class Segment {
 public:
  Segment(SegmentId id, std::size_t bytes, PoolId pool, platform::HugePages huge = {});

  SegmentId id() const noexcept { return id_; }
  PoolId pool() const noexcept { return pool_; }
  std::byte* data() const noexcept { return mapping_.data(); }
  std::size_t bytes() const noexcept { return mapping_.size(); }
  std::size_t reserved_bytes() const noexcept { return reserved_.bytes(); }

  // Returns how many bytes of memory a reservation of `range` would take.
  std::size_t unreserved_bytes(Range range) const;
  // Returns the range rounded to larger steps, so that small blocks do not cost a system call each.
  Range widened(Range range) const noexcept;
  // Returns the range rounded to whole huge pages, if the additional bytes are at most an eighth of
  // the bytes that are reserved in this segment with `range`; else returns widened(range).
  Range widened_to_huge_pages(Range range) const;
  // Returns false if the kernel has no more pages; then nothing new is reserved.
  [[nodiscard]] bool reserve(Range range);
  // Gives back pages that lie wholly inside `range`, the last ones first: `wanted_bytes` rounded
  // up, or all; fewer if there is no memory to record a gap. With kHuge, gives back only whole huge
  // pages if this segment may have some; with kSmall, the kernel splits huge pages as needed.
  void punch(Range range, std::size_t wanted_bytes,
             platform::Pages pages = platform::Pages::kSmall) noexcept;

  // Returns a descriptor for borrowers. A read descriptor cannot be mapped writable. A write
  // descriptor is never made unless the pool allows it.
  platform::Fd descriptor(Grant grant) const;

 private:
  // The result consists of whole pages.
  std::vector<Range> unreserved_in(Range range) const;
  // Allocates the pages of a range that has no reserved pages.
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
