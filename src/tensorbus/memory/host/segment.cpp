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

}  // namespace

Segment::Segment(SegmentId id, std::size_t bytes, PoolId pool)
    : id_(id),
      pool_(pool),
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

bool Segment::reserve(Range range) {
  const std::vector<Range> missing = unreserved_in(range);
  std::vector<RangeSet::Node> nodes;  // before pages are taken, so that they are always recorded
  nodes.reserve(missing.size());
  for (const Range& part : missing) nodes.push_back(RangeSet::node_for(part));
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (!platform::reserve_pages(memfd_.get(), missing[i].begin, missing[i].bytes())) {
      for (std::size_t k = 0; k <= i; ++k)  // the failed one may have got some pages
        platform::punch_pages(memfd_.get(), missing[k].begin, missing[k].bytes());
      return false;
    }
  }
  for (RangeSet::Node& node : nodes) reserved_.add(std::move(node));
  return true;
}

void Segment::punch(Range range, std::size_t wanted_bytes) noexcept {
  const std::size_t page = platform::page_bytes();
  Range inner{round_up(range.begin, page), round_down(range.end, page)};
  std::size_t left = round_up(std::min(wanted_bytes, bytes()), kStep);
  try {
    while (left > 0 && inner.begin < inner.end) {
      const auto part = reserved_.last_in(inner);
      if (!part) return;
      const Range gone{part->end - std::min(left, part->bytes()), part->end};
      reserved_.remove(gone);  // before punching: what is recorded as reserved must exist
      platform::punch_pages(memfd_.get(), gone.begin, gone.bytes());
      left -= gone.bytes();
      inner.end = gone.begin;
    }
  } catch (const std::bad_alloc&) {  // they stay reserved, and punching is tried again
  }
}

platform::Fd Segment::descriptor(Grant grant) const {
  if (grant == Grant::kRead) return platform::reopen_read_only(memfd_.get());
  check(pool_.most == Grant::kWrite);
  return platform::duplicate(memfd_.get());
}

}  // namespace tensorbus::memory
