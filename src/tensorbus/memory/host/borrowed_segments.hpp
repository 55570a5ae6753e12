#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/memory/shared_segment.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {

// A borrower's view of one owner's segments, all mapped with the same grant. A lease keeps its
// mappings, so its bytes stay readable when the owner retires the segment or dies. Read-only pages
// can become private (platform::CopyOnWrite). Thread-safe.
class BorrowedSegments {
 public:
  using Ref = std::shared_ptr<const platform::Mapping>;

  explicit BorrowedSegments(Grant grant) : grant_(grant) {}
  // Sets the account that is charged for segments. Called before the first add().
  void pay_from(PeerAccount account) { account_ = std::move(account); }

  // Maps a segment from the owner; if there is no room now, find() tries again. Throws
  // Error(kProtocol) if this is not a new sealed memfd, if it is not writable although write access
  // was granted, or if there are more segments than an owner can need; PeerLimit if over the
  // budget.
  void add(SegmentId id, platform::Fd fd, std::size_t bytes);
  // Adds a part of a file, which starts at a page, in place of a memfd. A page that the file lacks
  // reads as zeros (platform::FileGuard). Throws Error(kProtocol) for anything but a regular file,
  // and for a file in huge pages.
  void add_file(SegmentId id, platform::Fd fd, std::size_t bytes, FileRange file);
  void retire(SegmentId id);
  // Returns the mapping; empty if the owner's message has not arrived yet. Throws
  // Error(kOutOfMemory) that names the limits if there is no room to map it.
  Ref find(SegmentId id) const;
  // Returns true if one of the mappings contains this address.
  bool covers(const std::byte* address) const noexcept;
  // Returns a segment to pass on to another process. Throws Error(kClosed) if there is none.
  SharedSegment hand_on(SegmentId id) const;
  // Returns a private mapping of these bytes, which start at a page: a written page becomes
  // private. For segments that are otherwise read-only. Throws Error(kOutOfMemory) that names the
  // limits, or Error(kProtocol) if the segment was retired.
  Ref map_own(SegmentId id, Range range) const;
  struct Use {
    std::size_t segments = 0;
    std::size_t bytes = 0;
  };
  Use use() const;
  // Changes with every retire(). Relaxed: no lease refers to a retired segment, so seeing the
  // change late only costs address space for a while.
  std::uint32_t retirements() const noexcept {
    return retirements_.load(std::memory_order_relaxed);
  }

 private:
  struct Mapped;
  struct Paid;
  struct Segment {
    Ref mapping;      // empty: there was no room yet
    platform::Fd fd;  // to map it again, and to pass it on
    std::size_t bytes = 0;
    std::optional<FileRange> file{};
    PeerCharge descriptor{};
  };
  void enter(SegmentId id, Segment segment);
  void map(SegmentId id, Segment& segment) const;

  const Grant grant_;
  PeerAccount account_;
  mutable platform::Mutex mutex_;
  // Mutable: find() may map a segment.
  mutable std::unordered_map<SegmentId, Segment> segments_ TB_GUARDED_BY(mutex_);
  std::size_t bytes_ TB_GUARDED_BY(mutex_) = 0;  // of all segments
  std::atomic<std::uint32_t> retirements_{0};
};

// Caches the last segment found: most samples of a link lie in one segment. Not thread-safe.
class LastSegment {
 public:
  const BorrowedSegments::Ref& find(const BorrowedSegments& segments, SegmentId id) {
    const std::uint32_t retirements = segments.retirements();
    if (!mapping_ || id_ != id || retirements_ != retirements) {
      mapping_ = segments.find(id);
      id_ = id;
      retirements_ = retirements;
    }
    return mapping_;
  }

 private:
  BorrowedSegments::Ref mapping_;
  SegmentId id_ = 0;
  std::uint32_t retirements_ = 0;
};

}  // namespace tensorbus::memory
