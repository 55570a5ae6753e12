#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace tensorbus::memory {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t bytes() const noexcept { return end - begin; }
  bool operator==(const Range&) const = default;
};

// A set of bytes, stored as disjoint ranges that do not touch. Not thread-safe.
class RangeSet {
  using Map = std::map<std::size_t, std::size_t>;

 public:
  // A preallocated record for one more range, so that add() cannot fail.
  using Node = Map::node_type;
  static Node node_for(Range range);

  void add(Range range);
  // Adds the range of the node; none of its bytes may be present.
  void add(Node node) noexcept;
  // If there is no memory for the second part of a split range, throws and changes nothing.
  void remove(Range range);
  std::vector<Range> missing_in(Range range) const;
  std::vector<Range> present_in(Range range) const;
  // Returns the last part of `range` that is present.
  std::optional<Range> last_in(Range range) const noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Map end_by_begin_;
  std::size_t bytes_ = 0;
};

}  // namespace tensorbus::memory
