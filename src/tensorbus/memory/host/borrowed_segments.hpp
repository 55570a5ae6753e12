#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/memory/shared_segment.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"

namespace tensorbus::memory {

// One owner's segments as a borrower sees them, all mapped to do the same with them. A lease keeps
// the mappings it refers to, so its bytes stay readable when the owner retires the segment or dies.
// Thread-safe.
class BorrowedSegments {
 public:
  using Ref = std::shared_ptr<const platform::Mapping>;

  explicit BorrowedSegments(Grant grant) : grant_(grant) {}
  // Who pays for what is added from now on. Before any is.
  void pay_from(PeerAccount account) { account_ = std::move(account); }

  // Maps what the owner sent, or tries again when it is found, if there is no room now. Throws
  // Error(kProtocol) for anything but a fresh sealed memfd, one that cannot be written where that
  // was granted, and more of them than an owner can need; PeerLimit for more than the budget has.
  void add(SegmentId id, platform::Fd fd, std::size_t bytes);
  // Part of a file, from the start of a page on, in place of a memfd: a page that the file does not
  // have reads as zeros (platform::FileGuard). Throws Error(kProtocol) for what is no regular file,
  // or one of huge pages.
  void add_file(SegmentId id, platform::Fd fd, std::size_t bytes, FileRange file);
  void retire(SegmentId id);
  // Empty if the owner's message has not come yet. Throws Error(kOutOfMemory) that names the limits
  // if there is no room to map it.
  Ref find(SegmentId id) const;
  // Does this address lie in one of them?
  bool covers(const std::byte* address) const noexcept;
  // One, to be handed on. Throws Error(kClosed) if there is none.
  SharedSegment hand_on(SegmentId id) const;
  // Another mapping of these bytes, from the start of a page on, whose pages become the caller's
  // own when they are written; of a segment that is only read otherwise. Throws Error(kOutOfMemory)
  // that names the limits, Error(kProtocol) if the segment has been retired.
  Ref map_own(SegmentId id, Range range) const;
  // Moves on with every retire(). Relaxed: no lease refers to a segment that was retired, so to
  // notice it late costs address space for that long and no more.
  std::uint32_t retirements() const noexcept {
    return retirements_.load(std::memory_order_relaxed);
  }

 private:
  struct Segment {
    Ref mapping;      // empty: there was no room yet
    platform::Fd fd;  // to map it once more, and to hand it on
    std::size_t bytes = 0;
    std::optional<FileRange> file{};
    PeerCharge descriptor{};
  };
  void enter(SegmentId id, Segment segment);
  void map(Segment& segment) const;

  const Grant grant_;
  PeerAccount account_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<SegmentId, Segment> segments_;  // find() may still map one
  std::size_t bytes_ = 0;                                    // of all
  std::atomic<std::uint32_t> retirements_{0};
};

// The segment that was found last: most samples of a link lie in one. Not thread-safe.
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
