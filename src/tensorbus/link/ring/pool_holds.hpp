#pragma once

#include <map>
#include <memory>
#include <utility>

#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/memory/segment_id.hpp"

namespace tensorbus::link {

// Holds the pool memory that was sent to one borrower until the borrower has closed it: it must not
// be freed earlier. Not thread-safe.
class PoolHolds {
 public:
  using Hold = std::shared_ptr<const void>;

  explicit PoolHolds(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  PoolHolds(const PoolHolds&) = delete;
  PoolHolds& operator=(const PoolHolds&) = delete;
  ~PoolHolds() { end(nullptr); }

  // Called before the segment is sent. If it throws std::bad_alloc, nothing has changed.
  void add(memory::SegmentId segment, Hold hold) { holds_.emplace(segment, std::move(hold)); }
  // Called if the segment was not sent after all.
  void remove(memory::SegmentId segment) noexcept { holds_.erase(segment); }
  // Called when the borrower has closed the segment; the caller may release the result. Throws
  // Error(kProtocol) if the borrower does not have it.
  Hold take(memory::SegmentId segment);
  // Called when the borrower sends no more messages. Keeps its unclosed segments until it hangs up.
  // With a `pidfd` (else null), keeps them until the process has ended too, but at most for one
  // second after the hang-up.
  void end(std::shared_ptr<const platform::Fd> pidfd) noexcept;

 private:
  const std::shared_ptr<Channel> channel_;
  std::map<memory::SegmentId, Hold> holds_;
};

}  // namespace tensorbus::link
