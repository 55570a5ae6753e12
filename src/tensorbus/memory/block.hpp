#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tensorbus/memory/free_extents.hpp"
#include "tensorbus/memory/grant.hpp"

namespace tensorbus::memory {

class Arena;

inline constexpr std::size_t kBlockAlignment = 256;

// What the memory of a buffer is. The numbers travel in descriptors.
enum class BufferKind : std::uint8_t { kHost = 0, kCuda = 1, kFile = 2 };

// A range of bytes of the owner's arena, counted privately by the owner. Loans, samples that were
// issued, history and local handles each hold one reference; the last one gone frees the block.
class Block {
 public:
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint32_t segment() const noexcept { return segment_; }
  std::uint64_t offset() const noexcept { return offset_; }
  // Unique among all blocks of the arena, ever: a stale reference is told from a fresh one.
  std::uint64_t generation() const noexcept { return generation_; }
  // Of its segment.
  Grant most_granted() const noexcept { return most_granted_; }

  // It is its process's to write for ever, and to send any number of times; whoever has it sees
  // what is written. Said before anybody else knows of the block.
  void let_stand() noexcept { standing_ = true; }
  bool standing() const noexcept { return standing_; }

  // Any other is published at most once: afterwards its bytes belong to its readers.
  // False if it was before. Relaxed: the publisher's mutex orders what matters.
  bool mark_published() noexcept { return !published_.exchange(true, std::memory_order_relaxed); }
  bool published() const noexcept { return published_.load(std::memory_order_relaxed); }
  void unmark_published() noexcept { published_.store(false, std::memory_order_relaxed); }

 private:
  friend class Arena;
  friend class BlockRef;
  Block() = default;
  ~Block() = default;

  void release() noexcept;

  std::shared_ptr<Arena> arena_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t generation_ = 0;
  std::uint32_t segment_ = 0;
  FreeExtents::Place place_;  // among the free, when it comes back
  Grant most_granted_ = Grant::kRead;
  std::atomic<std::uint32_t> references_{1};
  std::atomic<bool> published_{false};
  bool standing_ = false;
};

// Owns one reference to a block, or nothing.
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

  Block* operator->() const noexcept { return block_; }
  Block& operator*() const noexcept { return *block_; }
  explicit operator bool() const noexcept { return block_ != nullptr; }
  bool operator==(const BlockRef&) const = default;

 private:
  friend class Arena;
  Block* block_ = nullptr;
};

}  // namespace tensorbus::memory
