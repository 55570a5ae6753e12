#include "tensorbus/memory/host/borrowed_segments.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/faults/bus_fault.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::memory {

using Access = platform::Mapping::Access;

namespace {

// Limits for a hostile owner, of our mappings (vm.max_map_count) and address space (128 TiB).
constexpr std::size_t kMostSegments = 4096;
constexpr std::size_t kMostBytes = std::size_t{1} << 44;

// A mapping of a file, with its guard against SIGBUS.
struct Guarded {
  std::string path;
  platform::Mapping mapping;
  platform::FileGuard guard;

  Guarded(const platform::Fd& fd, Range range, Access access, const FileRange& file)
      : path(file.path),
        mapping(fd.get(), range.bytes(), access, file.offset + range.begin),
        guard({mapping.data(), mapping.size()}, path, access != Access::kRead,
              platform::FileGuard::identify(fd.get(), access != Access::kCopyOnWrite)) {}
};

// The first mapping of a segment. It is charged while somebody holds it.
struct Paid {
  BorrowedSegments::Ref mapping;
  PeerCharge charge;
};

BorrowedSegments::Ref mapped(const platform::Fd& fd, Range range, Access access,
                             const std::optional<FileRange>& file) {
  if (!file)
    return std::make_shared<const platform::Mapping>(fd.get(), range.bytes(), access, range.begin);
  const auto guarded = std::make_shared<const Guarded>(fd, range, access, *file);
  return {guarded, &guarded->mapping};
}

}  // namespace

void BorrowedSegments::add(SegmentId id, platform::Fd fd, std::size_t bytes) {
  platform::verify_sealed_memfd(fd.get(), bytes, "SEGMENT.segment");
  if (grant_ == Grant::kWrite) platform::verify_writable(fd.get(), "SEGMENT.segment");
  enter(id, {nullptr, std::move(fd), bytes});
}

void BorrowedSegments::add_file(SegmentId id, platform::Fd fd, std::size_t bytes, FileRange file) {
  struct stat status{};
  if (::fstat(fd.get(), &status) < 0 || !S_ISREG(status.st_mode))
    throw Error(Code::kProtocol, "FILE.segment: not a regular file");
  // Huge pages cannot be replaced by a guard, and mapping them takes free ones from the machine.
  if (platform::has_huge_pages(fd.get()))
    throw Error(Code::kProtocol, "FILE.segment: a file of huge pages");
  if (bytes == 0 || file.offset % platform::page_bytes() != 0 || file.offset > kMostBytes)
    throw Error(Code::kProtocol, "FILE.offset: " + std::to_string(file.offset));
  enter(id, {nullptr, std::move(fd), bytes, std::move(file)});
}

void BorrowedSegments::enter(SegmentId id, Segment segment) {
  const std::size_t bytes = segment.bytes;
  const platform::MutexLock lock(mutex_);
  if (segments_.contains(id))
    throw Error(Code::kProtocol, "SEGMENT.segment: " + std::to_string(id.number) + " came twice");
  if (segments_.size() == kMostSegments || bytes > kMostBytes - bytes_)
    throw Error(Code::kProtocol, "SEGMENT.bytes: more segments than one participant can need");
  segment.descriptor = account_.take({.descriptors = 1});
  try {
    map(segment);
  } catch (const PeerLimit&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  segments_.emplace(id, std::move(segment));
  bytes_ += bytes;
}

void BorrowedSegments::map(Segment& segment) const {
  const Access access = grant_ == Grant::kWrite ? Access::kReadWrite : Access::kRead;
  const auto paid = std::make_shared<Paid>();
  paid->charge = account_.take({.mappings = 1, .address_bytes = segment.bytes});
  paid->mapping = mapped(segment.fd, {0, segment.bytes}, access, segment.file);
  segment.mapping = {paid, paid->mapping.get()};
}

void BorrowedSegments::retire(SegmentId id) {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  bytes_ -= found->second.bytes;
  segments_.erase(found);
  retirements_.fetch_add(1, std::memory_order_relaxed);
}

BorrowedSegments::Ref BorrowedSegments::find(SegmentId id) const {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end()) return nullptr;
  if (!found->second.mapping) map(found->second);
  return found->second.mapping;
}

bool BorrowedSegments::covers(const std::byte* address) const noexcept {
  const platform::MutexLock lock(mutex_);
  return std::any_of(segments_.begin(), segments_.end(), [&](const auto& item) {
    const Ref& mapping = item.second.mapping;
    return mapping && address >= mapping->data() && address < mapping->data() + mapping->size();
  });
}

SharedSegment BorrowedSegments::hand_on(SegmentId id) const {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end())
    throw Error(Code::kClosed, "segment " + std::to_string(id.number) + " is not here");
  return {platform::duplicate(found->second.fd.get()), found->second.bytes, found->second.file};
}

BorrowedSegments::Ref BorrowedSegments::map_own(SegmentId id, Range range) const {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find(id);
  // A correct owner never retires a leased segment.
  if (found == segments_.end())
    throw Error(Code::kProtocol, "RETIRED.segment: " + std::to_string(id.number) + " is leased");
  return mapped(found->second.fd, range, Access::kCopyOnWrite, found->second.file);
}

}  // namespace tensorbus::memory
