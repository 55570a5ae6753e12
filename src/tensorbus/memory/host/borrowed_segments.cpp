#include "tensorbus/memory/host/borrowed_segments.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/faults/bus_fault.hpp"
#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::memory {

using Access = platform::Mapping::Access;

namespace {

// Limits against a hostile owner: of mappings (vm.max_map_count) and of address space (128 TiB).
constexpr std::size_t kMaxSegments = 4096;
constexpr std::size_t kMaxBytes = std::size_t{1} << 44;

}  // namespace

// A mapping of a part of a segment.
struct BorrowedSegments::Mapped {
  struct Guarded {  // a mapping of a file, with its guard against SIGBUS
    std::string path;
    platform::Mapping mapping;
    platform::FileGuard guard;

    Guarded(const platform::Fd& fd, Range range, Access access, const FileRange& file)
        : path(file.path),
          mapping(fd.get(), range.bytes(), access, file.offset + range.begin),
          guard({mapping.data(), mapping.size()}, path, access != Access::kRead,
                platform::FileGuard::identify(fd.get(), access != Access::kCopyOnWrite)) {}
  };
  std::optional<Guarded> of_file;
  platform::Mapping of_memory;

  Mapped(const platform::Fd& fd, Range range, Access access, const std::optional<FileRange>& file) {
    if (file)
      of_file.emplace(fd, range, access, *file);
    else
      of_memory = platform::Mapping(fd.get(), range.bytes(), access, range.begin);
  }
  const platform::Mapping& mapping() const noexcept {
    return of_file ? of_file->mapping : of_memory;
  }
  const platform::FileGuard* guard() const noexcept { return of_file ? &of_file->guard : nullptr; }
};

// The first mapping of a segment. It is charged to the peer as long as it exists.
struct BorrowedSegments::Paid {
  PeerCharge charge;
  Mapped mapped;
  std::optional<platform::CopyOnWriteMapping> copy_on_write;

  Paid(PeerCharge paid, SegmentId id, const Segment& segment, Access access)
      : charge(std::move(paid)), mapped(segment.fd, {0, segment.bytes}, access, segment.file) {
    using Blocks = platform::CopyOnWriteMapping::Blocks;
    if (access != Access::kRead) return;
    copy_on_write.emplace(std::span(mapping().data(), mapping().size()), segment.fd.get(),
                          segment.file ? segment.file->offset : 0,
                          id.has_small_blocks() ? Blocks::kAnySize : Blocks::kOfPages,
                          mapped.guard());
  }
  const platform::Mapping& mapping() const noexcept { return mapped.mapping(); }
};

void BorrowedSegments::add(SegmentId id, platform::Fd fd, std::size_t bytes) {
  platform::verify_sealed_memfd(fd.get(), bytes, "SEGMENT.segment");
  if (grant_ == Grant::kWrite) platform::verify_writable(fd.get(), "SEGMENT.segment");
  enter(id, {nullptr, std::move(fd), bytes});
}

void BorrowedSegments::add_file(SegmentId id, platform::Fd fd, std::size_t bytes, FileRange file) {
  struct stat status{};
  if (::fstat(fd.get(), &status) < 0 || !S_ISREG(status.st_mode))
    throw Error(Code::kProtocol, "FILE.segment: not a regular file");
  // A guard cannot replace huge pages, and mapping them uses up the machine's free huge pages.
  if (platform::has_huge_pages(fd.get()))
    throw Error(Code::kProtocol, "FILE.segment: a file of huge pages");
  if (bytes == 0 || file.offset % platform::page_bytes() != 0 || file.offset > kMaxBytes)
    throw Error(Code::kProtocol, "FILE.offset: " + std::to_string(file.offset));
  enter(id, {nullptr, std::move(fd), bytes, std::move(file)});
}

void BorrowedSegments::enter(SegmentId id, Segment segment) {
  const std::size_t bytes = segment.bytes;
  const platform::MutexLock lock(mutex_);
  if (segments_.contains(id))
    throw Error(Code::kProtocol,
                "SEGMENT.segment: " + std::to_string(id.number) + " was sent twice");
  if (segments_.size() == kMaxSegments || bytes > kMaxBytes - bytes_)
    throw Error(Code::kProtocol, "SEGMENT.bytes: more segments than one participant can need");
  segment.descriptor = account_.take({.descriptors = 1});
  try {
    map(id, segment);
  } catch (const PeerLimit&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  segments_.emplace(id, std::move(segment));
  bytes_ += bytes;
}

void BorrowedSegments::map(SegmentId id, Segment& segment) const {
  const Access access = grant_ == Grant::kWrite ? Access::kReadWrite : Access::kRead;
  const auto paid = std::make_shared<const Paid>(
      account_.take({.mappings = 1, .address_bytes = segment.bytes}), id, segment, access);
  segment.mapping = {paid, &paid->mapping()};
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
  if (!found->second.mapping) map(id, found->second);
  return found->second.mapping;
}

BorrowedSegments::Use BorrowedSegments::use() const {
  const platform::MutexLock lock(mutex_);
  return {segments_.size(), bytes_};
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
    throw Error(Code::kClosed, "segment " + std::to_string(id.number) + " is not mapped here");
  return {platform::duplicate(found->second.fd.get()), found->second.bytes, found->second.file};
}

BorrowedSegments::Ref BorrowedSegments::map_own(SegmentId id, Range range) const {
  const platform::MutexLock lock(mutex_);
  const auto found = segments_.find(id);
  // A correct owner never retires a leased segment.
  if (found == segments_.end())
    throw Error(Code::kProtocol, "RETIRED.segment: " + std::to_string(id.number) + " is leased");
  const auto own = std::make_shared<const Mapped>(found->second.fd, range, Access::kCopyOnWrite,
                                                  found->second.file);
  return {own, &own->mapping()};
}

}  // namespace tensorbus::memory
