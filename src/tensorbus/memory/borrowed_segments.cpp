#include "tensorbus/memory/borrowed_segments.hpp"

#include <algorithm>
#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/memfd.hpp"

namespace tensorbus::memory {

using Access = platform::Mapping::Access;

namespace {

// What a hostile owner can take of our mappings (vm.max_map_count) and address space (128 TiB).
constexpr std::size_t kMostSegments = 4096;
constexpr std::size_t kMostBytes = std::size_t{1} << 44;

}  // namespace

void BorrowedSegments::add(std::uint32_t id, platform::Fd fd, std::size_t bytes) {
  platform::verify_sealed_memfd(fd.get(), bytes, "SEGMENT.segment");
  if (grant_ == Grant::kWrite) platform::verify_writable(fd.get(), "SEGMENT.segment");
  Segment segment{nullptr, std::move(fd), bytes};
  const std::lock_guard lock(mutex_);
  if (segments_.contains(id))
    throw Error(Code::kProtocol, "SEGMENT.segment: " + std::to_string(id) + " came twice");
  if (segments_.size() == kMostSegments || bytes > kMostBytes - bytes_)
    throw Error(Code::kProtocol, "SEGMENT.bytes: more segments than one participant can need");
  try {
    map(segment);
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  segments_.emplace(id, std::move(segment));
  bytes_ += bytes;
}

void BorrowedSegments::map(Segment& segment) const {
  const bool writable = grant_ == Grant::kWrite;
  segment.mapping = std::make_shared<const platform::Mapping>(
      segment.fd.get(), segment.bytes, writable ? Access::kReadWrite : Access::kRead);
}

void BorrowedSegments::retire(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  bytes_ -= found->second.bytes;
  segments_.erase(found);
  retirements_.fetch_add(1, std::memory_order_relaxed);
}

BorrowedSegments::Ref BorrowedSegments::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end()) return nullptr;
  if (!found->second.mapping) map(found->second);
  return found->second.mapping;
}

bool BorrowedSegments::covers(const std::byte* address) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(segments_.begin(), segments_.end(), [&](const auto& item) {
    const Ref& mapping = item.second.mapping;
    return mapping && address >= mapping->data() && address < mapping->data() + mapping->size();
  });
}

BorrowedSegments::Handed BorrowedSegments::hand_on(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end())
    throw Error(Code::kClosed, "segment " + std::to_string(id) + " is not here");
  return {platform::duplicate(found->second.fd.get()), found->second.bytes};
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
