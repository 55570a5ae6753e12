#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/memory/segment_id.hpp"

namespace tensorbus::link {

// What one borrower was sent of memory pools, and keeps until it has closed it: their memory must
// not be freed before. Not thread-safe.
class PoolHolds {
 public:
  using Hold = std::shared_ptr<const void>;

  explicit PoolHolds(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  PoolHolds(const PoolHolds&) = delete;
  PoolHolds& operator=(const PoolHolds&) = delete;
  ~PoolHolds() { end(nullptr); }

  // Before the segment is sent. Throws std::bad_alloc, and then has done nothing.
  void add(memory::SegmentId segment, Hold hold) { holds_.emplace(segment, std::move(hold)); }
  // It was not sent, after all.
  void remove(memory::SegmentId segment) noexcept { holds_.erase(segment); }
  // The borrower has closed it: what is returned may go. Throws Error(kProtocol) if it has none of
  // it.
  Hold take(memory::SegmentId segment);
  // Nothing more comes from the borrower, or is heard: what it has not closed stays until it hangs
  // up, which it does when it has. If it died, `pidfd` says when; null if there is none.
  void end(std::shared_ptr<const platform::Fd> pidfd) noexcept;

 private:
  const std::shared_ptr<Channel> channel_;
  std::map<memory::SegmentId, Hold> holds_;
};

}  // namespace tensorbus::link
