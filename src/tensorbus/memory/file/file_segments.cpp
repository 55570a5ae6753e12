#include "tensorbus/memory/file/file_segments.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::memory {

// Retires the number of a file that is unmapped: the file keeps this object and destroys it. Does
// nothing in a forked child: the registry belongs to the parent.
class FileSegments::Unmapping {
 public:
  Unmapping(std::weak_ptr<Registry> registry, SegmentId number)
      : registry_(std::move(registry)), number_(number) {}
  Unmapping(const Unmapping&) = delete;
  Unmapping& operator=(const Unmapping&) = delete;
  ~Unmapping() {
    if (platform::fork_generation() != made_in_) return;
    if (const auto registry = registry_.lock()) registry->retire(number_);
  }

 private:
  const std::weak_ptr<Registry> registry_;
  const SegmentId number_;
  const std::uint32_t made_in_ = platform::fork_generation();
};

void FileSegments::Registry::retire(SegmentId number) noexcept {
  const platform::MutexLock lock(mutex);
  if (files.erase(number) == 0) return;
  retired.push_back(number);
  if (listener) listener();
}

namespace {

// Takes no reference: releasing the last reference would unmap the file with the mutex held.
bool is(const std::weak_ptr<const MappedFile>& known,
        const std::shared_ptr<const MappedFile>& file) {
  return !known.owner_before(file) && !file.owner_before(known);
}

}  // namespace

SegmentId FileSegments::number_of(const std::shared_ptr<const MappedFile>& file) {
  std::shared_ptr<const Unmapping> unmapping;  // outlives the lock if an allocation fails
  const platform::MutexLock lock(registry_->mutex);
  auto& files = registry_->files;
  const auto known = std::find_if(files.begin(), files.end(),
                                  [&](const auto& item) { return is(item.second, file); });
  if (known != files.end()) return known->first;
  registry_->retired.reserve(registry_->retired.size() + files.size() + 1);
  const SegmentId number = SegmentId::file(registry_->next);
  unmapping = std::make_shared<const Unmapping>(registry_, number);
  file->keep_until_unmapped(unmapping);
  files.emplace(number, file);
  ++registry_->next;
  return number;
}

std::size_t FileSegments::bytes() const {
  std::vector<std::shared_ptr<const MappedFile>> mapped;  // released after the mutex
  std::size_t bytes = 0;
  const platform::MutexLock lock(registry_->mutex);
  for (const auto& [number, file] : registry_->files)
    if (const auto& one = mapped.emplace_back(file.lock())) bytes += one->pages().size();
  return bytes;
}

std::shared_ptr<const MappedFile> FileSegments::find(SegmentId number) const {
  const platform::MutexLock lock(registry_->mutex);
  const auto found = registry_->files.find(number);
  return found == registry_->files.end() ? nullptr : found->second.lock();
}

std::vector<SegmentId> FileSegments::take_retired() {
  const platform::MutexLock lock(registry_->mutex);
  if (registry_->retired.empty()) return {};
  std::vector<SegmentId> room;
  room.reserve(registry_->files.size());
  return std::exchange(registry_->retired, std::move(room));
}

void FileSegments::on_retired(std::function<void()> listener) {
  const platform::MutexLock lock(registry_->mutex);
  registry_->listener = std::move(listener);
}

}  // namespace tensorbus::memory
