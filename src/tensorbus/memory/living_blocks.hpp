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

// The blocks of an arena that somebody refers to, by their addresses and by their segments, and a
// few that rest: nobody refers to those, but they keep their places, so that the next block of the
// same size takes no look at the records of free space. Not thread-safe: under the arena's mutex.
class LivingBlocks {
  using Living = std::map<std::pair<SegmentId, std::size_t>, Block*>;

 public:
  LivingBlocks() = default;
  ~LivingBlocks();
  LivingBlocks(const LivingBlocks&) = delete;
  LivingBlocks& operator=(const LivingBlocks&) = delete;

  // All the memory that a block takes of its owner, before anything is done that would have to be
  // undone for want of it.
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

  // `free_place`: of the extent that it takes.
  BlockRef enter(Room room, std::shared_ptr<BlockHome> home, const BlockPlace& place,
                 FreeExtents::Place free_place) noexcept;
  // Its last reference is gone. What it took is free.
  FreeExtents::Taken remove(Block& block) noexcept;

  // Its last reference is gone, and it rests. Not if all that can do so already.
  void rest(Block& block) noexcept;
  bool all_rest() const noexcept { return resting_count_ == resting_.size(); }
  bool any_rests() const noexcept { return resting_count_ > 0; }
  // The one of this size and pool that came to rest last, as a fresh block; empty if there is
  // none.
  BlockRef wake(std::size_t bytes, PoolId pool, std::shared_ptr<BlockHome> home) noexcept;
  // Of the one that has rested longest: what it took is free.
  FreeExtents::Taken end_rest() noexcept;

  // Where the memory of a segment lies.
  void add_segment(SegmentId segment, const std::byte* data, std::size_t bytes) {
    segments_.emplace(data, Mapped{bytes, segment});
  }
  void remove_segment(const std::byte* data) noexcept { segments_.erase(data); }
  // The block that has this byte, or an empty reference.
  BlockRef find(const void* address) const noexcept;
  // The same by segment and offset; of this generation, unless that is 0.
  BlockRef find(SegmentId segment, std::uint64_t offset,
                std::uint64_t generation = 0) const noexcept;

  bool any_in(SegmentId segment) const noexcept {
    const auto at = living_.lower_bound({segment, 0});
    return at != living_.end() && at->first.first == segment;
  }

  // Of those that somebody refers to.
  std::size_t count() const noexcept { return living_.size() - resting_count_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Mapped {
    std::size_t bytes;
    SegmentId segment;
  };

  std::span<Block* const> resting() const noexcept { return {resting_.data(), resting_count_}; }
  void take_from_resting(std::size_t index) noexcept;

  Living living_;                     // and resting
  std::array<Block*, 64> resting_{};  // the oldest first
  std::size_t resting_count_ = 0;
  std::map<const std::byte*, Mapped> segments_;  // by their first bytes
  std::size_t bytes_ = 0;
  std::uint64_t next_generation_ = 1;
};

}  // namespace tensorbus::memory
