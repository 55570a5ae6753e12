#include "tensorbus/memory/ranges.hpp"

#include <algorithm>
#include <iterator>

namespace tensorbus::memory {

void RangeSet::add(Range range) {
  if (range.bytes() == 0) return;
  remove(range);
  bytes_ += range.bytes();
  auto next = end_by_begin_.lower_bound(range.begin);
  if (next != end_by_begin_.end() && next->first == range.end) {
    range.end = next->second;
    next = end_by_begin_.erase(next);
  }
  if (next != end_by_begin_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second == range.begin) {
      previous->second = range.end;
      return;
    }
  }
  end_by_begin_.emplace_hint(next, range.begin, range.end);
}

void RangeSet::remove(Range range) {
  for (const Range& present : present_in(range)) {
    const auto whole = std::prev(end_by_begin_.upper_bound(present.begin));
    const Range old{whole->first, whole->second};
    end_by_begin_.erase(whole);
    if (old.begin < present.begin) end_by_begin_.emplace(old.begin, present.begin);
    if (present.end < old.end) end_by_begin_.emplace(present.end, old.end);
    bytes_ -= present.bytes();
  }
}

std::vector<Range> RangeSet::present_in(Range range) const {
  std::vector<Range> found;
  auto at = end_by_begin_.upper_bound(range.begin);
  if (at != end_by_begin_.begin()) --at;
  for (; at != end_by_begin_.end() && at->first < range.end; ++at) {
    const Range part{std::max(at->first, range.begin), std::min(at->second, range.end)};
    if (part.begin < part.end) found.push_back(part);
  }
  return found;
}

std::vector<Range> RangeSet::missing_in(Range range) const {
  std::vector<Range> gaps;
  std::size_t from = range.begin;
  for (const Range& present : present_in(range)) {
    if (from < present.begin) gaps.push_back({from, present.begin});
    from = present.end;
  }
  if (from < range.end) gaps.push_back({from, range.end});
  return gaps;
}

}  // namespace tensorbus::memory
