#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/memory/segment_id.hpp"

namespace tensorbus::memory {

struct Extent {
  SegmentId segment = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// The free space of all segments of a pool. Allocates best fit; among equal sizes, the lowest
// address. Adjacent extents are merged. A freed extent of exactly the right size is found first, so
// a program that publishes frames of one size gets the same warm blocks again. Not thread-safe.
class FreeExtents {
  struct BySize {
    std::size_t bytes;
    SegmentId segment;
    std::size_t offset;
    auto operator<=>(const BySize&) const = default;
  };
  using Sizes = std::set<BySize>;
  using Offsets = std::map<std::size_t, std::size_t>;  // offset -> bytes

 public:
  // The record of a free extent. A taken extent keeps its record, so that its return allocates
  // nothing and cannot fail.
  class Place {
   public:
    Place() = default;

   private:
    friend class FreeExtents;
    Sizes::node_type by_size_;
    Offsets::node_type by_address_;
  };
  struct Taken {
    Extent extent;
    Place place;
  };

  // Takes `bytes`, aligned to `alignment`, from the smallest extent that fits.
  std::optional<Taken> take(std::size_t bytes, std::size_t alignment = 1);
  void give_back(Taken taken) noexcept;
  void add(Extent extent);
  // Removes a segment whose space is entirely free.
  void forget(SegmentId segment) noexcept;

  // Returns true if all of the segment, [0, bytes), is free.
  bool covers(SegmentId segment, std::size_t bytes) const noexcept;

  // Calls visit(extent) from the highest address down, until it returns false.
  template <typename Visit>
  void from_the_end(Visit visit) const {
    for (auto segment = by_address_.rbegin(); segment != by_address_.rend(); ++segment)
      for (auto at = segment->second.rbegin(); at != segment->second.rend(); ++at)
        if (!visit(Extent{segment->first, at->first, at->second})) return;
  }

 private:
  static Place new_place();
  void insert(Extent extent, Place place) noexcept;
  Place extract(SegmentId segment, Offsets& offsets, Offsets::iterator at) noexcept;

  Sizes by_size_;
  std::map<SegmentId, Offsets> by_address_;  // contains every segment
};

}  // namespace tensorbus::memory
