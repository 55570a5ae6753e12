#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tensorbus/link/channel.hpp"
#include "tensorbus/link/link_segment.hpp"
#include "tensorbus/link/wake.hpp"
#include "tensorbus/memory/borrowed_segments.hpp"
#include "tensorbus/platform/id.hpp"

namespace tensorbus::link {

// Whose samples come over a link.
struct Source {
  Id participant;
  std::uint32_t publisher = 0;
  std::string topic;
};

// What a borrower shares among its links to one owner. Kept alive by leases, so that the socket
// stays open, and the owner keeps its word, for as long as one of them is held.
struct Connected {
  std::shared_ptr<Channel> channel;
  memory::BorrowedSegments segments{memory::Grant::kRead};
  memory::BorrowedSegments writable_segments{memory::Grant::kWrite};
  PeerWakePage wake_page;
  platform::Fd pidfd;
};

// The borrower's end of a link. pop() and the state are under the subscriber's mutex; release() is
// for any thread. The last reference (subscriber or lease) gone tells the owner DONE.
class BorrowerLink {
 public:
  // `grant`: what is asked for.
  BorrowerLink(std::uint32_t id, std::shared_ptr<const Source> source,
               std::shared_ptr<Connected> connected, memory::Grant grant = memory::Grant::kRead);
  ~BorrowerLink();
  BorrowerLink(const BorrowerLink&) = delete;
  BorrowerLink& operator=(const BorrowerLink&) = delete;

  std::uint32_t id() const noexcept { return id_; }
  const std::shared_ptr<const Source>& source() const noexcept { return source_; }
  Channel& channel() const noexcept { return *connected_->channel; }

  // ACCEPTED came. Throws Error(kProtocol).
  void accept(const Accepted& accepted, platform::Fd segment);
  bool accepted() const noexcept { return segment_.has_value(); }
  // Nothing new will come: ENDED, or the owner's death.
  void end() noexcept { ended_ = look_again = true; }
  bool ended() const noexcept { return ended_; }

  // The next sample whose memory is mapped here; its lease is the caller's to release.
  [[nodiscard]] bool pop(Entry& entry) noexcept;
  // Would pop() find something that may be popped now, or may what was set aside be readable?
  bool ready() const noexcept;
  // Neither here nor in the ring is anything left.
  bool empty() const noexcept { return !set_aside && !(segment_ && samples_.ready()); }
  // Counts the samples that never came between the last one and this one.
  std::uint64_t gap_before(std::uint64_t sequence) noexcept;

  void release(std::uint64_t token) noexcept;
  // Tells the owner that nothing new is wanted. Once.
  void unsubscribe() noexcept;
  // Is this a child of the process that subscribed?
  bool forked() const noexcept;
  // Relaxed: a count; what it bounds is ordered by the rings.
  std::uint32_t held() const noexcept {
    return popped_.load(std::memory_order_relaxed) - released_.load(std::memory_order_relaxed);
  }
  // There is something, but the borrower holds all that it may.
  bool at_hold_limit() const noexcept {
    return segment_ && held() >= max_held_ && !set_aside && samples_.ready();
  }

  // Under the subscriber's mutex.
  const memory::BorrowedSegments::Ref& find_segment(std::uint32_t id) {
    return last_segment_.find(segments_, id);
  }
  // Another mapping of bytes of a segment that was found: BorrowedSegments::map_own().
  memory::BorrowedSegments::Ref map_own(std::uint32_t id, memory::Range range) const {
    return segments_.map_own(id, range);
  }

  // Where the owner rings for those who poll; closed when the subscriber lets the link go.
  platform::Fd bell;

  // An entry that was popped and cannot be read yet waits here, with its lease: its segment has not
  // arrived, or there was no room to map it.
  std::optional<Entry> set_aside;
  // Since then something changed, so that it may be readable now.
  bool look_again = false;

 private:
  void wake_publisher() noexcept;

  const std::uint32_t id_;
  const std::uint32_t fork_generation_;
  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<Connected> connected_;
  const memory::BorrowedSegments& segments_;  // of connected_: those to read, or those to write
  // Said when the link goes, which has to work without memory.
  Channel::Prepared unsubscribe_;
  Channel::Prepared done_;
  std::optional<LinkSegment> segment_;
  SampleRingReader samples_;
  std::uint64_t next_sequence_ = 0;
  std::uint32_t max_held_ = 0;
  bool publisher_waits_ = false;  // it is reliable: it may sleep until we pop or release
  bool ended_ = false;
  Waker publisher_;
  memory::LastSegment last_segment_;
  std::atomic<std::uint32_t> popped_{0};  // written under the subscriber's mutex
  std::mutex release_mutex_;
  std::atomic<std::uint32_t> released_{0};  // written under release_mutex_
  ReturnRingWriter returns_;
};

}  // namespace tensorbus::link
