#include "tensorbus/memory/ranges.hpp"

#include <algorithm>
#include <iterator>

namespace tensorbus::memory {

RangeSet::Node RangeSet::node_for(Range range) {
  Map one;
  one.emplace(range.begin, range.end);
  return one.extract(one.begin());
}

void RangeSet::add(Range range) {
  std::vector<Node> nodes;
  for (const Range& gap : missing_in(range)) nodes.push_back(node_for(gap));
  for (Node& node : nodes) add(std::move(node));
}

void RangeSet::add(Node node) noexcept {
  bytes_ += node.mapped() - node.key();
  auto next = end_by_begin_.lower_bound(node.key());
  if (next != end_by_begin_.end() && next->first == node.mapped()) {
    node.mapped() = next->second;
    next = end_by_begin_.erase(next);
  }
  if (next != end_by_begin_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second == node.key()) {
      previous->second = node.mapped();
      return;
    }
  }
  end_by_begin_.insert(next, std::move(node));
}

void RangeSet::remove(Range range) {
  while (const auto gone = last_in(range)) {
    const auto whole = std::prev(end_by_begin_.upper_bound(gone->begin));
    const Range old{whole->first, whole->second};
    if (old.begin < gone->begin) {
      // Two parts remain only if `range` lies inside this one. Inserted first, as this can throw.
      if (gone->end < old.end) end_by_begin_.emplace_hint(std::next(whole), gone->end, old.end);
      whole->second = gone->begin;
    } else if (gone->end < old.end) {
      const auto next = std::next(whole);
      Node node = end_by_begin_.extract(whole);
      node.key() = gone->end;
      end_by_begin_.insert(next, std::move(node));
    } else {
      end_by_begin_.erase(whole);
    }
    bytes_ -= gone->bytes();
    range.end = gone->begin;
  }
}

std::optional<Range> RangeSet::last_in(Range range) const noexcept {
  auto at = end_by_begin_.lower_bound(range.end);
  if (at == end_by_begin_.begin()) return std::nullopt;
  --at;
  const Range part{std::max(at->first, range.begin), std::min(at->second, range.end)};
  return part.begin < part.end ? std::optional(part) : std::nullopt;
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
