#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tensorbus/internal/one_or_many.hpp>
#include <utility>

#include "tensorbus/link/lease/byte_counter.hpp"
#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus::link {

// Everything that a published sample keeps alive. Each lease and each place in the history holds a
// reference. The last one returns the blocks to the arena.
class PublishedSample {
 public:
  // `messages`: the number of messages in the block, each with a lease of its own.
  explicit PublishedSample(memory::BlockRef block, std::uint32_t messages = 1)
      : messages_(messages), on_device_(block->kind() == memory::BufferKind::kDevice) {
    blocks_.push_back(std::move(block));
  }
  // `files`: segments of files that contain the sample; `kept` keeps them mapped. `leases`: leases
  // of its memory that belongs to other owners.
  explicit PublishedSample(OneOrMany<memory::BlockRef> blocks,
                           OneOrMany<memory::SegmentId> files = {},
                           OneOrMany<std::shared_ptr<const void>> kept = {},
                           OneOrMany<std::shared_ptr<const Lease>> leases = {})
      : blocks_(std::move(blocks)),
        files_(std::move(files)),
        kept_(std::move(kept)),
        leases_(std::move(leases)) {
    for (const memory::BlockRef& block : blocks_)
      on_device_ = on_device_ || block->kind() == memory::BufferKind::kDevice;
  }
  PublishedSample(const PublishedSample&) = delete;
  PublishedSample& operator=(const PublishedSample&) = delete;

  // Counts the sample's bytes in this counter until the sample is destroyed. Called once, by its
  // publisher.
  void count_in(ByteCounter& in_flight) const noexcept {
    in_flight_ = CountedBytes(in_flight, bytes());
  }
  std::size_t bytes() const noexcept {
    std::size_t bytes = 0;
    for (const memory::BlockRef& block : blocks_) bytes += block->bytes();
    return bytes;
  }

  // Returns the bytes of each message: an equal part of bytes().
  std::size_t bytes_of_each() const noexcept { return bytes() / messages_; }

  const OneOrMany<memory::BlockRef>& blocks() const noexcept { return blocks_; }
  memory::Block& block() const noexcept { return **blocks_.begin(); }  // there must be a block
  // Returns these bytes of a segment if they lie in one of its blocks in host memory, else none.
  std::span<const std::byte> find(memory::SegmentId segment, std::uint64_t offset,
                                  std::size_t bytes) const noexcept {
    for (const memory::BlockRef& block : blocks_) {
      if (block->segment() != segment || segment.on_device() || offset < block->offset()) continue;
      const std::uint64_t before = offset - block->offset();
      if (before <= block->bytes() && bytes <= block->bytes() - before)
        return {block->data() + before, bytes};
    }
    return {};
  }
  const OneOrMany<memory::SegmentId>& files() const noexcept { return files_; }
  // Returns true if it has memory of other owners.
  bool has_leases() const noexcept { return !leases_.empty(); }
  // Returns true if GPU streams write parts of it.
  bool on_device() const noexcept { return on_device_; }
  // For GPU memory of other owners. is_settled(): its state is final; intact(): it is complete.
  bool is_settled() const noexcept {
    return std::all_of(leases_.begin(), leases_.end(),
                       [](const auto& lease) { return lease->is_settled(); });
  }
  bool intact() const noexcept {
    return std::all_of(leases_.begin(), leases_.end(),
                       [](const auto& lease) { return lease->intact(); });
  }
  // Returns the memory of another participant if the sample lies in this segment of it, else null.
  // Valid as long as the sample.
  PeerMemory* memory_of(const Id& owner, memory::SegmentId segment) const noexcept {
    for (const auto& lease : leases_)
      if (PeerMemory* const memory = lease->memory_of(owner, segment)) return memory;
    return nullptr;
  }

 private:
  OneOrMany<memory::BlockRef> blocks_;
  OneOrMany<memory::SegmentId> files_;
  OneOrMany<std::shared_ptr<const void>> kept_;
  OneOrMany<std::shared_ptr<const Lease>> leases_;
  std::uint32_t messages_ = 1;
  bool on_device_ = false;
  mutable CountedBytes in_flight_;  // a statistic
};

// Null for a sample that lies in its ring entry.
using PublishedRef = std::shared_ptr<const PublishedSample>;

}  // namespace tensorbus::link
