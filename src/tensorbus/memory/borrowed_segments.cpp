#include "tensorbus/memory/borrowed_segments.hpp"

#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/memfd.hpp"

namespace tensorbus::memory {

void BorrowedSegments::add(std::uint32_t id, platform::Fd fd, std::size_t bytes) {
  platform::verify_sealed_memfd(fd.get(), bytes, "SEGMENT.segment");
  auto mapping =
      std::make_shared<const platform::Mapping>(fd.get(), bytes, platform::Mapping::Access::kRead);
  const std::lock_guard lock(mutex_);
  if (!mappings_.emplace(id, std::move(mapping)).second)
    throw Error(Code::kProtocol, "SEGMENT.segment: " + std::to_string(id) + " came twice");
}

void BorrowedSegments::retire(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  mappings_.erase(id);
  retirements_.fetch_add(1, std::memory_order_relaxed);
}

BorrowedSegments::Ref BorrowedSegments::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(id);
  return found == mappings_.end() ? nullptr : found->second;
}

}  // namespace tensorbus::memory
