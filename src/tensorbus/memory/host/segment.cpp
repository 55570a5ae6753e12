#include "tensorbus/memory/host/segment.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::memory {
namespace {

// Pages are reserved and punched in steps of this size where there is room.
constexpr std::size_t kStep = 256 * 1024;

std::size_t round_down(std::size_t value, std::size_t step) { return value / step * step; }
std::size_t round_up(std::size_t value, std::size_t step) {
  return round_down(value + step - 1, step);
}

// Returns the largest range of whole steps inside a range; empty if there is none.
Range inside(Range range, std::size_t step) {
  const Range inner{round_up(range.begin, step), round_down(range.end, step)};
  return inner.begin < inner.end ? inner : Range{range.begin, range.begin};
}

}  // namespace

Segment::Segment(SegmentId id, std::size_t bytes, PoolId pool, platform::HugePages huge)
    : id_(id),
      pool_(pool),
      huge_(huge),
      memfd_(platform::create_sealed_memfd("tensorbus-segment", bytes)),
      mapping_(memfd_.get(), bytes, platform::Mapping::Access::kReadWrite) {}

std::vector<Range> Segment::unreserved_in(Range range) const {
  const std::size_t page = platform::page_bytes();
  return reserved_.missing_in({round_down(range.begin, page), round_up(range.end, page)});
}

std::size_t Segment::unreserved_bytes(Range range) const {
  std::size_t missing = 0;
  for (const Range& part : unreserved_in(range)) missing += part.bytes();
  return missing;
}

Range Segment::widened(Range range) const noexcept {
  return {round_down(range.begin, kStep), std::min(round_up(range.end, kStep), bytes())};
}

Range Segment::widened_to_huge_pages(Range range) const {
  if (huge_.bytes == 0) return widened(range);
  const Range wide{round_down(range.begin, huge_.bytes),
                   std::min(round_up(range.end, huge_.bytes), bytes())};
  const std::size_t needed = unreserved_bytes(range);
  const bool little = unreserved_bytes(wide) - needed <= (reserved_bytes() + needed) / 8;
  return little ? wide : widened(range);
}

bool Segment::take_pages(Range range) const {
  const Range huge =
      huge_.bytes == 0 ? Range{range.begin, range.begin} : inside(range, huge_.bytes);
  populate(huge, platform::Pages::kHuge);
  if (huge_.everywhere) {  // reserve_pages() would take a whole huge page for a part of it
    populate({range.begin, huge.begin}, platform::Pages::kSmall);
    populate({huge.end, range.end}, platform::Pages::kSmall);
  }
  return platform::reserve_pages(memfd_.get(), range.begin, range.bytes());
}

void Segment::populate(Range range, platform::Pages pages) const noexcept {
  if (range.bytes() > 0) platform::populate_pages(memfd_.get(), range.begin, range.bytes(), pages);
}

bool Segment::reserve(Range range) {
  const std::vector<Range> missing = unreserved_in(range);
  std::vector<RangeSet::Node> nodes;  // before pages are taken, so that recording them cannot fail
  nodes.reserve(missing.size());
  for (const Range& part : missing) nodes.push_back(RangeSet::node_for(part));
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (!take_pages(missing[i])) {
      for (std::size_t k = 0; k <= i; ++k)  // the failed range may have some pages
        platform::punch_pages(memfd_.get(), missing[k].begin, missing[k].bytes());
      return false;
    }
  }
  for (RangeSet::Node& node : nodes) reserved_.add(std::move(node));
  return true;
}

void Segment::punch(Range range, std::size_t wanted_bytes, platform::Pages pages) noexcept {
  const bool huge = huge_.bytes != 0 && pages == platform::Pages::kHuge;
  const std::size_t step = huge ? huge_.bytes : platform::page_bytes();
  Range inner = inside(range, step);
  std::size_t left = round_up(std::min(wanted_bytes, bytes()), std::max(step, kStep));
  try {
    while (left > 0 && inner.begin < inner.end) {
      const auto part = reserved_.last_in(inner);
      if (!part) return;
      const std::size_t begin = part->end - std::min(left, part->bytes());
      const Range gone{std::max(part->begin, round_down(begin, step)), part->end};
      reserved_.remove(gone);  // before punching: each page recorded as reserved must exist
      platform::punch_pages(memfd_.get(), gone.begin, gone.bytes());
      left -= std::min(left, gone.bytes());
      inner.end = gone.begin;
    }
  } catch (const std::bad_alloc&) {  // the pages stay reserved until a later attempt
  }
}

platform::Fd Segment::descriptor(Grant grant) const {
  if (grant == Grant::kRead) return platform::reopen_read_only(memfd_.get());
  check(pool_.most == Grant::kWrite);
  return platform::duplicate(memfd_.get());
}

}  // namespace tensorbus::memory
