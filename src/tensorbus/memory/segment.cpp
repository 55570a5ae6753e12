#include "tensorbus/memory/segment.hpp"

#include <algorithm>

#include "tensorbus/platform/memfd.hpp"

namespace tensorbus::memory {
namespace {

// Reservations are made in steps of this, so that small blocks do not cost a system call each.
constexpr std::size_t kReserveStep = 256 * 1024;

std::size_t round_down(std::size_t value, std::size_t step) { return value / step * step; }
std::size_t round_up(std::size_t value, std::size_t step) {
  return round_down(value + step - 1, step);
}

}  // namespace

Segment::Segment(std::uint32_t id, std::size_t bytes)
    : id_(id),
      memfd_(platform::create_sealed_memfd("tensorbus-segment", bytes)),
      mapping_(memfd_.get(), bytes, platform::Mapping::Access::kReadWrite) {}

std::vector<Range> Segment::unreserved_in(Range range) const {
  return reserved_.missing_in({round_down(range.begin, kReserveStep),
                               std::min(round_up(range.end, kReserveStep), bytes())});
}

bool Segment::reserve(Range range) {
  const std::vector<Range> missing = unreserved_in(range);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (!platform::reserve_pages(memfd_.get(), missing[i].begin, missing[i].bytes())) {
      for (std::size_t k = 0; k <= i; ++k)  // the failed one may have got some pages
        platform::punch_pages(memfd_.get(), missing[k].begin, missing[k].bytes());
      return false;
    }
  }
  for (const Range& part : missing) reserved_.add(part);
  return true;
}

void Segment::punch(Range range) {
  const std::size_t page = platform::page_bytes();
  const Range inner{round_up(range.begin, page), round_down(range.end, page)};
  if (inner.begin >= inner.end) return;
  for (const Range& part : reserved_.present_in(inner))
    platform::punch_pages(memfd_.get(), part.begin, part.bytes());
  reserved_.remove(inner);
}

platform::Fd Segment::read_only_descriptor() const {
  return platform::reopen_read_only(memfd_.get());
}

}  // namespace tensorbus::memory
