#include "tensorbus/memory/borrowed_segments.hpp"

#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/memfd.hpp"

namespace tensorbus::memory {

using Access = platform::Mapping::Access;

void BorrowedSegments::add(std::uint32_t id, platform::Fd fd, std::size_t bytes) {
  platform::verify_sealed_memfd(fd.get(), bytes, "SEGMENT.segment");
  const bool writable = grant_ == Grant::kWrite;
  if (writable) platform::verify_writable(fd.get(), "SEGMENT.segment");
  auto mapping = std::make_shared<const platform::Mapping>(
      fd.get(), bytes, writable ? Access::kReadWrite : Access::kRead);
  if (writable) fd.reset();
  const std::lock_guard lock(mutex_);
  if (!segments_.emplace(id, Segment{std::move(mapping), std::move(fd)}).second)
    throw Error(Code::kProtocol, "SEGMENT.segment: " + std::to_string(id) + " came twice");
}

void BorrowedSegments::retire(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  segments_.erase(id);
  retirements_.fetch_add(1, std::memory_order_relaxed);
}

BorrowedSegments::Ref BorrowedSegments::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  return found == segments_.end() ? nullptr : found->second.mapping;
}

BorrowedSegments::Ref BorrowedSegments::map_own(std::uint32_t id, Range range) const {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  // Only an owner that breaks its word retires what is leased.
  if (found == segments_.end())
    throw Error(Code::kProtocol, "RETIRED.segment: " + std::to_string(id) + " is leased");
  return std::make_shared<const platform::Mapping>(found->second.fd.get(), range.bytes(),
                                                   Access::kCopyOnWrite, range.begin);
}

}  // namespace tensorbus::memory
