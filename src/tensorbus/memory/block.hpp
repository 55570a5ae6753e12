#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tensorbus/memory/free_extents.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/fork/inherited.hpp"

namespace tensorbus::device {
class DeviceExports;
}
namespace tensorbus::memory {

class Block;
class BlockRef;

inline constexpr std::size_t kBlockAlignment = 256;

// The kind of a buffer's memory. The numbers are part of the protocol (descriptors).
enum class BufferKind : std::uint8_t { kHost = 0, kDevice = 1, kFile = 2 };

// The arena of a block. A block returns to its arena, and keeps the arena alive.
class BlockHome {
 public:
  virtual ~BlockHome() = default;

 protected:
  friend class Block;
  BlockHome() = default;
  // Called when the last reference is gone, in any thread. Returns false if the arena keeps the
  // Block object for reuse.
  virtual bool free(Block& block) noexcept = 0;
};

// The place of a block, as its arena records it.
struct BlockPlace {
  std::byte* data = nullptr;  // on a device: not readable by the CPU
  std::size_t bytes = 0;
  std::uint64_t offset = 0;  // in the segment
  SegmentId segment = 0;
  BufferKind kind = BufferKind::kHost;
  PoolId pool = Grant::kRead;  // of the segment
};

// A range of bytes in an owner's arena, with a private reference count. Loans, published samples,
// history and local handles each hold a reference. The last release frees the block, or keeps it
// for forked children (see Arena).
class Block final : private platform::Inherited {
 public:
  std::byte* data() const noexcept { return place_.data; }
  std::size_t bytes() const noexcept { return place_.bytes; }
  BufferKind kind() const noexcept { return place_.kind; }
  SegmentId segment() const noexcept { return place_.segment; }
  std::uint64_t offset() const noexcept { return place_.offset; }
  // Unique among all blocks of the arena, past and present: a stale reference is recognized by it.
  std::uint64_t generation() const noexcept { return generation_; }
  Grant max_grant() const noexcept { return place_.pool.most; }
  PoolId pool() const noexcept { return place_.pool; }
  bool is_of(const BlockHome& home) const noexcept { return home_.get() == &home; }

  // Makes the block writable by its process forever and publishable any number of times; all
  // holders see the writes. Called before another thread can use the block.
  void make_persistent() noexcept { persistent_ = true; }
  bool persistent() const noexcept { return persistent_; }

  // Marks a block that was not taken as a loan: it is copied where it cannot be published by
  // reference. Called before another thread can use the block.
  void mark_born() noexcept { born_as_array_ = true; }
  bool copied_where_it_does_not_fit() const noexcept { return persistent_ || born_as_array_; }

  // For GPU memory: a packed mark of the owner (WriteMarks). When the mark is reached, the block is
  // completely written. Relaxed: the code that passes the block on provides the order.
  void set_write_mark(std::uint64_t mark) noexcept {
    write_mark_.store(mark, std::memory_order_relaxed);
  }
  std::uint64_t write_mark() const noexcept { return write_mark_.load(std::memory_order_relaxed); }

  // A block that is not persistent is published at most once: then its bytes belong to the readers.
  // Returns false if it was published before. Relaxed: the publisher's mutex orders the rest.
  bool mark_published() noexcept { return !published_.exchange(true, std::memory_order_relaxed); }
  bool published() const noexcept { return published_.load(std::memory_order_relaxed); }
  void unmark_published() noexcept { published_.store(false, std::memory_order_relaxed); }

 private:
  friend class BlockRef;
  friend class LivingBlocks;
  friend class device::DeviceExports;
  friend class Arena;
  Block() = default;
  ~Block() = default;

  void release() noexcept;
  // Frees a block that was kept for forked children.
  void let_go() noexcept override;
  // Returns another reference; empty if the last reference is already gone, and the thread that
  // released it waits for the mutex of the arena. Called with that mutex held.
  BlockRef another() noexcept;
  // Reuses the object for a new block at the same place. Called with the mutex of the arena held.
  void begin_again(std::shared_ptr<BlockHome> home, std::uint64_t generation) noexcept;

  std::shared_ptr<BlockHome> home_;
  BlockPlace place_;
  std::uint64_t generation_ = 0;
  FreeExtents::Place free_place_;  // its record for give_back()
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint64_t> write_mark_{0};
  std::atomic<bool> published_{false};
  bool persistent_ = false;
  bool born_as_array_ = false;
  bool for_children_ = false;  // only forked children use it; guarded by the arena's mutex
};

// Owns one reference to a block, or none.
class BlockRef {
 public:
  BlockRef() = default;
  explicit BlockRef(Block* adopted) noexcept : block_(adopted) {}
  BlockRef(const BlockRef& other) noexcept : block_(other.block_) {
    // Relaxed: a new reference is made from an existing one.
    if (block_ != nullptr) block_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    if (block_ != nullptr) block_->release();
  }

  // Returns true if this is the only reference. Acquire: pairs with release() of the others.
  bool unshared() const noexcept {
    return block_->references_.load(std::memory_order_acquire) == 1;
  }

  Block* operator->() const noexcept { return block_; }
  Block& operator*() const noexcept { return *block_; }
  explicit operator bool() const noexcept { return block_ != nullptr; }
  bool operator==(const BlockRef&) const = default;

 private:
  Block* block_ = nullptr;
};

}  // namespace tensorbus::memory
