#include "tensorbus/memory/file_segments.hpp"

#include <algorithm>

namespace tensorbus::memory {

std::uint32_t FileSegments::number_of(const std::shared_ptr<const MappedFile>& file) {
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [](const auto& item) { return item.second.expired(); });
  const auto known = std::find_if(files_.begin(), files_.end(),
                                  [&](const auto& item) { return item.second.lock() == file; });
  if (known != files_.end()) return known->first;
  files_.emplace(next_, file);
  return next_++;
}

std::shared_ptr<const MappedFile> FileSegments::find(std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(number);
  return found == files_.end() ? nullptr : found->second.lock();
}

}  // namespace tensorbus::memory
