#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace tensorbus::memory {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t bytes() const noexcept { return end - begin; }
  bool operator==(const Range&) const = default;
};

// A set of bytes, kept as disjoint ranges that do not touch.
class RangeSet {
 public:
  void add(Range range);
  void remove(Range range);
  std::vector<Range> missing_in(Range range) const;
  std::vector<Range> present_in(Range range) const;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::map<std::size_t, std::size_t> end_by_begin_;
  std::size_t bytes_ = 0;
};

}  // namespace tensorbus::memory
