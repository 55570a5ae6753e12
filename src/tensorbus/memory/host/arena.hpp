#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/file/file_segments.hpp"
#include "tensorbus/memory/free_extents.hpp"
#include "tensorbus/memory/host/segment.hpp"
#include "tensorbus/memory/living_blocks.hpp"
#include "tensorbus/memory/shared_segment.hpp"

namespace tensorbus::memory {

struct ArenaOptions {
  std::size_t segment_bytes = std::size_t{64} << 20;  // a larger tensor gets a larger segment
  std::size_t budget_bytes = 0;                       // 0: three quarters of the machine's memory
  std::size_t warm_bytes = std::size_t{256} << 20;    // free memory kept for reuse
};

// A participant's host memory: sealed segments, carved into blocks. All book-keeping is private
// memory of the owner, so nothing a borrower does can damage it. Each segment is of one pool. There
// are two for everybody: of one, borrowers only ever get to read; of the other, those who ask may
// write. Whoever wants segments for itself makes one more.
//
// Invariants, under `mutex_`:
// 1. Every byte of every segment is in exactly one block, which may rest, or one free extent.
// 2. Every page of a block is reserved; reserved_bytes, of all pools, never exceeds the budget.
// 3. A segment is removed only when it is entirely free.
// 4. A segment is of one pool for ever, and its number belongs to no other segment, ever.
// 5. Pages that are pinned are reserved, and not punched.
// 6. A block that a forked child may have inherited is neither free nor at rest.
// Thread-safe. Blocks keep their arena alive.
class Arena : public BlockHome, public std::enable_shared_from_this<Arena> {
 public:
  static std::shared_ptr<Arena> create(const ArenaOptions& options);

  // At least `bytes`, aligned to kBlockAlignment, of a pool. Throws Error(kOutOfMemory) that names
  // the limit.
  BlockRef allocate(std::size_t bytes, PoolId pool = Grant::kRead);

  // A pool for one user. When it is closed, allocate() throws Error(kClosed) for it, and each of
  // its segments goes with its last block. It is closed once.
  PoolId make_pool(Grant most);
  void close_pool(PoolId id) noexcept;

  // The block that holds this address, or an empty reference.
  BlockRef find(const void* address) const noexcept;

  // The block that a borrower names, or an empty reference if there is none, or no longer.
  BlockRef find(SegmentId segment, std::uint64_t offset, std::uint64_t generation) const noexcept;

  // Keeps the pages of a block, also when it is free again: others let GPUs read there (PIN). Only
  // of blocks that have their pages to themselves, and of at most half of the budget; empty
  // otherwise. Each is unpinned once.
  std::optional<Range> pin(SegmentId segment, std::uint64_t offset, std::uint64_t generation);
  void unpin(SegmentId segment, Range part) noexcept;

  // Files that are lent like segments.
  FileSegments& files() const noexcept { return files_; }

  // A descriptor of a segment that still has blocks; for writing, of that pool only.
  SharedSegment share_segment(SegmentId id, Grant grant = Grant::kRead) const;

  // Segments that went since the last call; their borrowers are to be told.
  std::vector<SegmentId> take_retired();
  // `listener` is called whenever there are such segments, in any thread and under our mutex. It
  // must not throw.
  void on_retired(std::function<void()> listener);

  // The participant goes; borrowers may read for longer what they were lent. Nothing is allocated
  // from now on, and what is freed keeps its pages: the last mapping takes them along.
  void close() noexcept;

  // But for what is of the whole process.
  ArenaUse stats() const;

 private:
  explicit Arena(const ArenaOptions& options);

  struct Pool {
    FreeExtents free;
    std::size_t segments = 0;
    bool closed = false;
  };
  Pool& pool(PoolId id) noexcept { return pools_.at(id); }

  FreeExtents::Taken take_extent(std::size_t bytes, PoolId id);
  void give_back(FreeExtents::Taken taken, PoolId id) noexcept;
  void grow_for(std::size_t bytes, PoolId id);
  bool is_of_closed_pool(const Block& block) const noexcept {
    return block.pool().number != 0 && pools_.at(block.pool()).closed;
  }
  bool make_usable(const Extent& extent);
  void require_room(std::size_t bytes, std::size_t asked);
  bool free(Block& block) noexcept override;
  bool keep_for_children(Block& block) noexcept;
  void end_rest() noexcept;
  void keep_warm_limit() noexcept;
  void trim(std::size_t reserved_target) noexcept;
  void trim(const FreeExtents& free, std::size_t reserved_target) noexcept;
  void retire_if_empty(SegmentId segment) noexcept;
  Range unpinned_end(SegmentId segment, Range range) const noexcept;

  const ArenaOptions options_;
  mutable FileSegments files_;
  mutable std::mutex mutex_;
  std::map<SegmentId, Segment> segments_;
  LivingBlocks blocks_;
  std::map<PoolId, Pool> pools_;
  std::uint32_t next_pool_ = 1;
  std::vector<SegmentId> retired_;  // has room for every segment that there is
  std::function<void()> retired_listener_;
  std::uint32_t next_segment_ = 0;
  std::size_t reserved_bytes_ = 0;
  std::multimap<SegmentId, Range> pinned_;  // by segment; may be several times the same
  std::size_t pinned_bytes_ = 0;
  std::size_t inherited_bytes_ = 0;
  bool closed_ = false;
};

}  // namespace tensorbus::memory
