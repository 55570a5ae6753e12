#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::link {

inline constexpr std::size_t kInlineBytes = 64;

// The content of a slot besides its state. Offsets: docs/internals/protocol.md, section 4.
struct Entry {
  std::uint64_t sequence = 0;
  std::uint64_t timestamp_ns = 0;
  std::uint64_t token = 0;
  std::uint32_t length = 0;                               // of the descriptor, in bytes
  memory::SegmentId segment = memory::SegmentId::none();  // the segment of the descriptor
  std::uint64_t offset = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t timeline = 0;  // a packed mark; 0: complete, or in host memory
  std::array<std::byte, kInlineBytes> inline_bytes{};

  bool is_inline() const noexcept { return segment == memory::SegmentId::none(); }
};

// 128 bytes: two cache lines, which the adjacent-line prefetcher fetches together. All words are
// atomics, because a borrower may copy an entry while the owner overwrites it.
struct alignas(128) Slot {
  platform::Atomic<std::uint64_t> state;
  std::array<platform::Atomic<std::uint64_t>, 15> words;
};
static_assert(sizeof(Slot) == 128 && sizeof(Entry) == 120);

// One ring from the owner to one borrower (docs/internals/protocol.md, section 3). Position p lies
// in slot p mod slots; slots is a power of two. Invariants:
// 1. state(p): older, full(p) = 2p + 1, taken(p) = 2p + 2, newer; it only grows.
// 2. Exactly one of pop(p) and drop(p) succeeds: both swap from full(p).
// 3. The owner writes the words of p only after p - slots was taken.

// The owner's end. Not thread-safe: guarded by the publisher's mutex.
class SampleRingWriter {
 public:
  SampleRingWriter() = default;
  explicit SampleRingWriter(std::span<Slot> slots) : slots_(slots) {}

  // `position` must be the next one; its slot must be taken.
  void push(std::uint64_t position, const Entry& entry) noexcept;
  // Takes an entry back. Returns false if the borrower has popped it.
  [[nodiscard]] bool drop(std::uint64_t position) noexcept;
  bool is_taken(std::uint64_t position) const noexcept;
  // Fetches the cache lines of a position for writing. Its slot should be taken.
  void fetch_to_write(std::uint64_t position) const noexcept;

 private:
  Slot& slot(std::uint64_t position) const noexcept {
    return slots_[position & (slots_.size() - 1)];
  }

  std::span<Slot> slots_;
};

// The borrower's end. Not thread-safe: guarded by the subscriber's mutex. All data is untrusted
// input: for any content, pop() returns in bounded time, with an entry or none.
class SampleRingReader {
 public:
  SampleRingReader() = default;
  explicit SampleRingReader(std::span<Slot> slots) : slots_(slots) {}

  // After a pop() that found nothing, ready() is false until the owner writes to the ring again.
  [[nodiscard]] bool pop(Entry& entry) noexcept;
  // Returns true if pop() would find an entry. May be wrong while the owner drops one.
  bool ready() const noexcept;
  // Skips entries that the owner has taken back. Called when the owner has stopped writing.
  void skip_dropped() noexcept;
  // Ends the ring after its newest entry: pop() returns no later ones. Returns that entry's
  // sequence number; empty if the ring has no entry to pop.
  std::optional<std::uint64_t> stop_at_newest() noexcept;
  // Returns true if pop() found an invalid state: the ring is not read any more.
  bool broken() const noexcept { return broken_; }

 private:
  // Returns true if the slot of `next_` can have this state, which is newer than taken(next_).
  bool is_possible(std::uint64_t state) const noexcept;
  void fetch_next() noexcept;
  Slot& slot(std::uint64_t position) const noexcept {
    return slots_[position & (slots_.size() - 1)];
  }

  std::span<Slot> slots_;
  std::uint64_t next_ = 0;
  std::uint64_t until_ = UINT64_MAX;  // the first position that is not to be popped
  std::uint32_t in_a_row_ = 0;        // samples popped since the last failed pop()
  bool broken_ = false;
};

}  // namespace tensorbus::link
