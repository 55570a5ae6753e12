#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/file/file_segments.hpp"
#include "tensorbus/memory/free_extents.hpp"
#include "tensorbus/memory/host/segment.hpp"
#include "tensorbus/memory/living_blocks.hpp"
#include "tensorbus/memory/shared_segment.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/huge_pages.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/futex.hpp"

namespace tensorbus::memory {

struct ArenaOptions {
  std::size_t segment_bytes = std::size_t{64} << 20;  // a larger tensor gets a larger segment
  std::size_t budget_bytes = 0;                       // 0: three quarters of the machine's memory
  std::size_t warm_bytes = std::size_t{256} << 20;    // free memory kept for reuse
  // Empty: the huge pages that the kernel offers when a segment is made.
  std::optional<platform::HugePages> huge_pages = std::nullopt;
};

// The Error(kOutOfMemory) of allocate() while blocks are in use: freeing them may make room.
class ArenaFull : public Error {
 public:
  explicit ArenaFull(const std::string& message) : Error(Code::kOutOfMemory, message) {}
};

// A participant's host memory: sealed segments, divided into blocks. All records are private memory
// of the owner, so no borrower can damage them. Each segment belongs to one pool. Two pools serve
// all publishers: in one, borrowers can only read; in the other, borrowers that request it may
// write. A publisher that needs segments of its own makes another pool.
//
// Invariants, guarded by `mutex_`:
// 1. Every byte of every segment is in exactly one block, which may rest, or one free extent.
// 2. Every page of a block is reserved; reserved_bytes, of all pools, never exceeds the budget.
// 3. A segment is removed only when it is entirely free.
// 4. A segment stays in its pool forever, and its number is never used for another segment.
// 5. Pinned pages are reserved, and not punched.
// 6. A block that a forked child may have inherited is neither free nor at rest.
// Thread-safe. Blocks keep their arena alive.
class Arena : public BlockHome, public std::enable_shared_from_this<Arena> {
 public:
  static std::shared_ptr<Arena> create(const ArenaOptions& options);

  // Returns a block of at least `bytes`, aligned to kBlockAlignment, from a pool. Throws
  // Error(kOutOfMemory) that names the limit; ArenaFull if there may be room later.
  BlockRef allocate(std::size_t bytes, PoolId pool = Grant::kRead);

  // Makes a pool for one user. After close_pool() (once for each pool), allocate() throws
  // Error(kClosed) for it, and each of its segments is removed with its last block.
  PoolId make_pool(Grant most);
  void close_pool(PoolId id) noexcept;

  // Returns the block that holds this address, or an empty reference.
  BlockRef find(const void* address) const noexcept;

  // Returns the block that a borrower names; an empty reference if it does not exist or is gone.
  BlockRef find(SegmentId segment, std::uint64_t offset, std::uint64_t generation) const noexcept;

  // Keeps the pages of a block, even after the block was freed: a borrower lets GPUs read them
  // (PIN). Only blocks of whole pages can be pinned, and at most half of the budget; else the
  // result is empty. unpin() is called once for each pin.
  std::optional<Range> pin(SegmentId segment, std::uint64_t offset, std::uint64_t generation);
  void unpin(SegmentId segment, Range part) noexcept;

  // The files that are lent like segments.
  FileSegments& files() const noexcept { return files_; }

  // Returns a descriptor of a segment that has blocks; for writing only if the pool allows it.
  SharedSegment share_segment(SegmentId id, Grant grant = Grant::kRead) const;

  // Returns the segments that were removed since the last call; borrowers must be notified.
  std::vector<SegmentId> take_retired();
  // Sets a function that is called after segments were removed, in any thread, with the arena's
  // mutex held. It must not throw.
  void on_retired(std::function<void()> listener);

  // Called when the participant ends. Borrowers may still read their leased blocks. Freed blocks
  // keep their pages until the last mapping ends.
  void close() noexcept;

  // Returns the use of this arena, without the values of the whole process.
  ArenaUse stats() const;

 private:
  friend class RoomWait;
  explicit Arena(const ArenaOptions& options);

  struct Pool {
    FreeExtents free;
    std::size_t segments = 0;
    bool closed = false;
  };
  Pool& pool(PoolId id) noexcept TB_REQUIRES(mutex_) { return pools_.at(id); }

  FreeExtents::Taken take_extent(std::size_t bytes, PoolId id) TB_REQUIRES(mutex_);
  void give_back(FreeExtents::Taken taken, PoolId id) noexcept TB_REQUIRES(mutex_);
  void grow_for(std::size_t bytes, PoolId id) TB_REQUIRES(mutex_);
  bool is_of_closed_pool(const Block& block) const noexcept TB_REQUIRES(mutex_) {
    return block.pool().number != 0 && pools_.at(block.pool()).closed;
  }
  bool make_usable(const Extent& extent) TB_REQUIRES(mutex_);
  void require_room(std::size_t bytes, std::size_t asked) TB_REQUIRES(mutex_);
  bool free(Block& block) noexcept override;
  bool keep_for_children(Block& block) noexcept TB_REQUIRES(mutex_);
  void end_rest() noexcept TB_REQUIRES(mutex_);
  void keep_warm_limit() noexcept TB_REQUIRES(mutex_);
  void trim(std::size_t reserved_target) noexcept TB_REQUIRES(mutex_);
  void trim(const FreeExtents& free, std::size_t reserved_target, platform::Pages pages) noexcept
      TB_REQUIRES(mutex_);
  void retire_if_empty(SegmentId segment) noexcept TB_REQUIRES(mutex_);
  void notify_freed() noexcept TB_REQUIRES(mutex_);
  [[noreturn]] void refuse(const std::string& why) const TB_REQUIRES(mutex_);
  Range unpinned_end(SegmentId segment, Range range) const noexcept TB_REQUIRES(mutex_);

  const ArenaOptions options_;
  mutable FileSegments files_;
  mutable platform::Mutex mutex_;
  std::map<SegmentId, Segment> segments_ TB_GUARDED_BY(mutex_);
  LivingBlocks blocks_ TB_GUARDED_BY(mutex_);
  std::map<PoolId, Pool> pools_ TB_GUARDED_BY(mutex_);
  std::uint32_t next_pool_ TB_GUARDED_BY(mutex_) = 1;
  // Has capacity for every segment, so that removing one does not allocate.
  std::vector<SegmentId> retired_ TB_GUARDED_BY(mutex_);
  std::function<void()> retired_listener_ TB_GUARDED_BY(mutex_);
  std::uint32_t next_segment_ TB_GUARDED_BY(mutex_) = 0;
  platform::HugePages huge_ TB_GUARDED_BY(mutex_);  // of the newest segment
  std::size_t reserved_bytes_ TB_GUARDED_BY(mutex_) = 0;
  // By segment; the same range may occur several times.
  std::multimap<SegmentId, Range> pinned_ TB_GUARDED_BY(mutex_);
  std::size_t pinned_bytes_ TB_GUARDED_BY(mutex_) = 0;
  std::size_t inherited_bytes_ TB_GUARDED_BY(mutex_) = 0;
  bool closed_ TB_GUARDED_BY(mutex_) = false;
  std::uint32_t waiting_ TB_GUARDED_BY(mutex_) = 0;  // number of RoomWaits
  // Counts how often memory was freed during a RoomWait. Written with mutex_ held. Relaxed: it is
  // only a hint to try again, with mutex_ held.
  std::atomic<std::uint32_t> freed_{0};
};

// The wait of one thread until an arena has room. It misses no memory that is freed meanwhile.
class RoomWait {
 public:
  explicit RoomWait(Arena& arena) noexcept;
  ~RoomWait();
  RoomWait(const RoomWait&) = delete;
  RoomWait& operator=(const RoomWait&) = delete;

  // Calls `allocate`, which throws ArenaFull if there is no room. Memory that a failing `allocate`
  // frees to undo its own work does not cause another attempt, in this or any other thread.
  template <typename Allocate>
  void attempt(const Allocate& allocate) {
    seen_ = arena_.freed_.load(std::memory_order_relaxed);
    const Attempt attempt;
    allocate();
  }
  // Returns true if memory was freed since the last attempt began.
  bool freed() const noexcept { return arena_.freed_.load(std::memory_order_relaxed) != seen_; }
  // Sleeps until freed(), at most for `most`. May return without a reason.
  platform::FutexWait sleep(std::chrono::nanoseconds most) noexcept {
    return platform::futex_wait(arena_.freed_, seen_, most);
  }

 private:
  struct Attempt {
    Attempt() noexcept;
    ~Attempt();
  };
  Arena& arena_;
  std::uint32_t seen_ = 0;
};

}  // namespace tensorbus::memory
