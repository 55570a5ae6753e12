#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/free_extents.hpp"

namespace tensorbus::memory {

// The referenced blocks of an arena, by address and by segment, and a few resting blocks. A resting
// block has no references but keeps its place, so that the next block of the same size needs no
// search of the free space. Not thread-safe: guarded by the arena's mutex.
class LivingBlocks {
  using Living = std::map<std::pair<SegmentId, std::size_t>, Block*>;

 public:
  LivingBlocks() = default;
  ~LivingBlocks();
  LivingBlocks(const LivingBlocks&) = delete;
  LivingBlocks& operator=(const LivingBlocks&) = delete;

  // The records of a new block, allocated before any step that would have to be undone.
  class Room {
   public:
    Room();

   private:
    friend class LivingBlocks;
    struct Delete {
      void operator()(Block* block) const noexcept;
    };
    std::unique_ptr<Block, Delete> block_;
    Living::node_type node_;
  };

  // `free_place`: the record of the extent that the block takes.
  BlockRef enter(Room room, std::shared_ptr<BlockHome> home, const BlockPlace& place,
                 FreeExtents::Place free_place) noexcept;
  // Removes a block without references; returns its extent, which is now free.
  FreeExtents::Taken remove(Block& block) noexcept;

  // Lets a block without references rest. Not allowed if all_rest().
  void rest(Block& block) noexcept;
  bool all_rest() const noexcept { return resting_count_ == resting_.size(); }
  bool any_rests() const noexcept { return resting_count_ > 0; }
  // Returns the latest resting block of this size and pool as a new block; empty if there is none.
  BlockRef wake(std::size_t bytes, PoolId pool, std::shared_ptr<BlockHome> home) noexcept;
  // Ends the rest of the block that has rested longest; returns its extent, which is now free.
  FreeExtents::Taken end_rest() noexcept;

  // Records where a segment is mapped.
  void add_segment(SegmentId segment, const std::byte* data, std::size_t bytes) {
    segments_.emplace(data, Mapped{bytes, segment});
  }
  void remove_segment(const std::byte* data) noexcept { segments_.erase(data); }
  // Returns the block that holds this byte, or an empty reference.
  BlockRef find(const void* address) const noexcept;
  // Finds the block by segment and offset, and by generation unless that is 0.
  BlockRef find(SegmentId segment, std::uint64_t offset,
                std::uint64_t generation = 0) const noexcept;

  bool any_in(SegmentId segment) const noexcept {
    const auto at = living_.lower_bound({segment, 0});
    return at != living_.end() && at->first.first == segment;
  }

  // Number and size of the referenced blocks.
  std::size_t count() const noexcept { return living_.size() - resting_count_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Mapped {
    std::size_t bytes;
    SegmentId segment;
  };

  std::span<Block* const> resting() const noexcept { return {resting_.data(), resting_count_}; }
  void take_from_resting(std::size_t index) noexcept;

  Living living_;                     // includes resting blocks
  std::array<Block*, 64> resting_{};  // the oldest first
  std::size_t resting_count_ = 0;
  std::map<const std::byte*, Mapped> segments_;  // by their first bytes
  std::size_t bytes_ = 0;
  std::uint64_t next_generation_ = 1;
};

}  // namespace tensorbus::memory
