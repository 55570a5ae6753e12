#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/link/lease.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/tensor/few.hpp"

namespace tensorbus::link {

using ByteCounter = std::atomic<std::uint64_t>;

// What a published sample keeps alive. Every lease and every place in the history has a reference;
// when the last one goes, the blocks go back to the arena.
class IssuedSample {
 public:
  explicit IssuedSample(memory::BlockRef block, std::shared_ptr<ByteCounter> in_flight)
      : on_device_(block->kind() == memory::BufferKind::kCuda), in_flight_(std::move(in_flight)) {
    blocks_.push_back(std::move(block));
    in_flight_->fetch_add(bytes(), std::memory_order_relaxed);  // a statistic
  }
  // `files`: segments of files that it lies in, which are `kept`. `leases`: of what others own of
  // it.
  IssuedSample(Few<memory::BlockRef> blocks, std::shared_ptr<ByteCounter> in_flight,
               Few<std::uint32_t> files = {}, Few<std::shared_ptr<const void>> kept = {},
               Few<std::shared_ptr<const Lease>> leases = {})
      : blocks_(std::move(blocks)),
        in_flight_(std::move(in_flight)),
        files_(std::move(files)),
        kept_(std::move(kept)),
        leases_(std::move(leases)) {
    in_flight_->fetch_add(bytes(), std::memory_order_relaxed);  // a statistic
    for (const memory::BlockRef& block : blocks_)
      on_device_ = on_device_ || block->kind() == memory::BufferKind::kCuda;
  }
  ~IssuedSample() { in_flight_->fetch_sub(bytes(), std::memory_order_relaxed); }
  IssuedSample(const IssuedSample&) = delete;
  IssuedSample& operator=(const IssuedSample&) = delete;

  const Few<memory::BlockRef>& blocks() const noexcept { return blocks_; }
  const Few<std::uint32_t>& files() const noexcept { return files_; }
  // Is some of it written by streams?
  bool on_device() const noexcept { return on_device_; }
  // Of what others own of it on devices: is it known whether it came to be whole, and was it?
  bool is_settled() const noexcept {
    return std::all_of(leases_.begin(), leases_.end(),
                       [](const auto& lease) { return lease->is_settled(); });
  }
  bool intact() const noexcept {
    return std::all_of(leases_.begin(), leases_.end(),
                       [](const auto& lease) { return lease->intact(); });
  }

 private:
  std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const memory::BlockRef& block : blocks_) sum += block->bytes();
    return sum;
  }

  Few<memory::BlockRef> blocks_;
  bool on_device_ = false;
  std::shared_ptr<ByteCounter> in_flight_;
  Few<std::uint32_t> files_;
  Few<std::shared_ptr<const void>> kept_;
  Few<std::shared_ptr<const Lease>> leases_;
};

// Empty for a sample that rides in the ring entry itself.
using IssuedRef = std::shared_ptr<const IssuedSample>;

}  // namespace tensorbus::link
