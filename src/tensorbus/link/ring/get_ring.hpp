#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "tensorbus/platform/atomic.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::link {

// The get ring: through it, the server of a queue lends items to all getters in advance
// (docs/internals/protocol.md, section 7, "The get ring"). The server makes the memory; the server
// and all getters map it writable. Invariants:
// 1. Each position has one taker: the process that swaps the taker in its slot from kFree. This is
//    a getter, or the server if it takes the item back. The server sees the taker of each item.
// 2. Getters acquire positions in ascending order. The server takes back the first item, or items
//    from the last position down.
// 3. The server writes to a slot only after it has seen the taker of the slot's item. A getter
//    reads the bytes before it swaps, so they are valid if the swap succeeds.

// The taker of the item at a position. Positions begin with 1 and are never reused.
struct GetRingTaker {
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kServer = 1;
  static constexpr std::uint32_t kFirstGetter = 2;
  static constexpr std::uint32_t kMaxTakers = 1U << 24;
  std::uint64_t position = 0;
  std::uint32_t taker = kFree;

  std::uint64_t packed() const noexcept { return position << 24 | taker; }
  static GetRingTaker unpack(std::uint64_t word) noexcept {
    return {word >> 24, static_cast<std::uint32_t>(word & (kMaxTakers - 1))};
  }
};

struct alignas(64) GetRingSlot {
  static constexpr std::size_t kMaxBytes = 240;
  platform::Atomic<std::uint64_t> taker{0};  // packed
  // The number of the item << 9 | whether its taker gets a lease << 8 | its size in bytes.
  platform::Atomic<std::uint64_t> what{0};
  // The descriptor. Atomic, because a late getter may read while the server writes.
  std::array<platform::Atomic<std::uint64_t>, kMaxBytes / 8> words;
};
static_assert(GetRingSlot::kMaxBytes < 256 && sizeof(GetRingSlot) == 256);

struct GetRingHeader {
  alignas(64) platform::Atomic<std::uint64_t> taken{0};  // a hint: acquired up to this position
  // The getter that acquires this position, or a later one, sends QUEUE_WAKE.
  alignas(64) platform::Atomic<std::uint64_t> wake_at{0};
  platform::Atomic<std::uint32_t> more{0};  // a hint: 1 if items wait that are not lent
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
};

// Owns the memory of one ring.
class GetRingSegment {
 public:
  static constexpr std::uint32_t kSlots = 128;
  static constexpr std::size_t kHeaderBytes = 4096;
  static constexpr std::size_t kBytes = kHeaderBytes + kSlots * sizeof(GetRingSlot);

  // The server's end: makes the memory. Throws Error(kOutOfMemory).
  GetRingSegment();
  // A getter's end: maps the memory that it received. Throws Error(kProtocol).
  explicit GetRingSegment(platform::Fd memfd);

  GetRingHeader& header() const noexcept {
    return *reinterpret_cast<GetRingHeader*>(mapping_.data());
  }
  std::span<GetRingSlot> slots() const noexcept {
    return {reinterpret_cast<GetRingSlot*>(mapping_.data() + kHeaderBytes), kSlots};
  }
  // Returns another descriptor of the memory, for sending. Throws Error(kOutOfMemory).
  platform::Fd descriptor() const;

 private:
  platform::Fd memfd_;
  platform::Mapping mapping_;
};

// The server's end. Not thread-safe: used on the event loop. It trusts a taker only at a position
// that it has lent.
class GetRingWriter {
 public:
  explicit GetRingWriter(const GetRingSegment& segment)
      : GetRingWriter(segment.header(), segment.slots()) {}
  GetRingWriter(GetRingHeader& header, std::span<GetRingSlot> slots)
      : header_(&header), slots_(slots) {}

  // Returns the number of lent items whose taker was not seen yet.
  std::uint64_t lent() const noexcept { return tail_ - head_; }
  bool has_room() const noexcept { return lent() < slots_.size(); }
  // Lends one more item of at most kMaxBytes bytes. There must be room. Returns its position, which
  // identifies its lease if it has one.
  std::uint64_t lend(std::span<const std::byte> bytes, std::uint64_t number,
                     bool has_lease = false) noexcept {
    GetRingSlot& slot = at(++tail_);
    std::array<std::uint64_t, GetRingSlot::kMaxBytes / 8> words{};
    const std::size_t length = std::min(bytes.size(), GetRingSlot::kMaxBytes);
    std::memcpy(words.data(), bytes.data(), length);
    for (std::size_t i = 0; i < (length + 7) / 8; ++i)
      slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.what.store(number << 9 | (has_lease ? 256 : 0) | length, std::memory_order_relaxed);
    // Release: after the bytes; pairs with the getter's acquire.
    slot.taker.store(GetRingTaker{tail_}.packed(), std::memory_order_release);
    return tail_;
  }
  // Returns the position of the oldest item whose taker was not seen yet.
  std::uint64_t first() const noexcept { return head_ + 1; }
  // Returns the taker of the oldest lent item; kFree if it has none. There must be a lent item.
  std::uint32_t taker() const noexcept {
    // Acquire: pairs with the getter's swap; before it, the getter has read the slot.
    const std::uint64_t word = at(head_ + 1).taker.load(std::memory_order_acquire);
    const auto found = GetRingTaker::unpack(word);
    return found.position == head_ + 1 ? found.taker : GetRingTaker::kServer;
  }
  // Records that the taker of the oldest item was seen.
  void pop() noexcept { ++head_; }
  // Takes the oldest item back. Returns false if a getter has it.
  bool take_back_first() noexcept {
    if (!acquire(head_ + 1)) return false;
    ++head_;
    return true;
  }
  // Takes all free items back, the last one first, so that no getter finds a gap. Then calls
  // taken(taker) for the others.
  template <typename Taken>
  void take_back(const Taken& taken) {
    std::uint64_t last = tail_;
    while (last != head_ && acquire(last)) --last;
    for (; head_ != last; ++head_) {
      (void)acquire(head_ + 1);  // fails if the item has a taker
      taken(taker());
    }
    head_ = tail_;
  }
  // A getter wakes the server when it leaves at most `left` lent items; empty: never. The
  // caller checks taker() afterwards.
  void wake_when_left(std::optional<std::uint64_t> left) noexcept {
    const std::uint64_t lent = this->lent();
    const std::uint64_t at =
        !left || lent == 0 ? GetRingHeader::kNever : tail_ - std::min(*left, lent - 1);
    if (at == wake_at_) return;
    wake_at_ = at;
    header_->wake_at.store(at, std::memory_order_relaxed);
    // Pairs with the getter's swap: the getter sees the word, or the server sees the taker.
    platform::atomic_fence(std::memory_order_seq_cst);
  }
  void set_more(bool more) noexcept {
    if (more != more_) header_->more.store(more ? 1 : 0, std::memory_order_relaxed);
    more_ = more;
  }
  // Called when a getter has woken the server: the getter has reset `wake_at` to kNever.
  void woken() noexcept { wake_at_.reset(); }

 private:
  GetRingSlot& at(std::uint64_t position) const noexcept {
    return slots_[position & (slots_.size() - 1)];
  }
  bool acquire(std::uint64_t position) noexcept {
    std::uint64_t free = GetRingTaker{position}.packed();
    // Acquire on failure: as in taker().
    return at(position).taker.compare_exchange_strong(
        free, GetRingTaker{position, GetRingTaker::kServer}.packed(), std::memory_order_relaxed,
        std::memory_order_acquire);
  }

  GetRingHeader* header_;
  std::span<GetRingSlot> slots_;
  std::uint64_t head_ = 0;  // position of the last taker seen
  std::uint64_t tail_ = 0;  // position of the last item lent
  std::optional<std::uint64_t> wake_at_;
  bool more_ = false;
};

// A getter's end. Thread-safe.
class GetRingReader {
 public:
  GetRingReader(const GetRingSegment& segment, std::uint32_t taker)
      : GetRingReader(segment.header(), segment.slots(), taker) {}
  GetRingReader(GetRingHeader& header, std::span<GetRingSlot> slots, std::uint32_t taker)
      : header_(&header), slots_(slots), taker_(taker) {}

  struct Taken {
    std::uint64_t number = 0;  // of the item
    bool wakes = false;        // the caller must wake the server
  };
  bool more() const noexcept { return header_->more.load(std::memory_order_relaxed) != 0; }
  // The result of `read` in take().
  enum class Look : std::uint8_t {
    kReadable,
    kMalformed,   // is discarded and counted as lost
    kOutOfReach,  // stays in the ring: nothing is taken
  };
  // Takes the oldest lent item; empty if there is none. Calls read(bytes, lease) before an item is
  // taken. If another process takes that item first, continues with the next one. `lease` is the
  // position of the item, 0 without a lease. Throws what read() throws.
  template <typename Read>
  std::optional<Taken> take(const Read& read) {
    std::array<std::uint64_t, GetRingSlot::kMaxBytes / 8> words;
    std::uint64_t position = header_->taken.load(std::memory_order_relaxed) + 1;
    for (;;) {
      GetRingSlot& slot = slots_[position & (slots_.size() - 1)];
      // Acquire: pairs with lend(). The bytes of this or a later position are complete.
      std::uint64_t word = slot.taker.load(std::memory_order_acquire);
      const auto found = GetRingTaker::unpack(word);
      if (found.position < position) return std::nullopt;
      if (found.position > position) {  // all earlier positions of this slot were acquired
        position = std::max(position, found.position - slots_.size()) + 1;
        continue;
      }
      if (found.taker == GetRingTaker::kFree) {
        const std::uint64_t what = slot.what.load(std::memory_order_relaxed);
        const std::size_t bytes = std::min<std::size_t>(what & 255, GetRingSlot::kMaxBytes);
        for (std::size_t i = 0; i < (bytes + 7) / 8; ++i)
          words[i] = slot.words[i].load(std::memory_order_relaxed);
        const Look look = read(std::as_bytes(std::span(words)).first(bytes),
                               (what & 256) != 0 ? position : std::uint64_t{0});
        if (look == Look::kOutOfReach) return std::nullopt;
        platform::kill_point("get_ring.read");
        // Sequentially consistent: after the reads, for the server's acquire, and before wakes().
        // Fails if another process has the item.
        const GetRingTaker ours{position, look == Look::kReadable ? taker_ : GetRingTaker::kServer};
        if (slot.taker.compare_exchange_strong(word, ours.packed(), std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
          header_->taken.store(position, std::memory_order_relaxed);
          platform::kill_point("get_ring.acquired");
          return Taken{what >> 9, wakes(position)};
        }
        continue;
      }
      ++position;
    }
  }

 private:
  bool wakes(std::uint64_t position) noexcept {
    // Sequentially consistent: after the swap. Pairs with GetRingWriter::wake_when_left().
    std::uint64_t at = header_->wake_at.load(std::memory_order_seq_cst);
    while (at <= position)  // the server may set a later position, which another getter acquires
      if (header_->wake_at.compare_exchange_strong(
              at, GetRingHeader::kNever, std::memory_order_relaxed, std::memory_order_relaxed))
        return true;
    return false;
  }

  GetRingHeader* header_;
  std::span<GetRingSlot> slots_;
  const std::uint32_t taker_;
};

}  // namespace tensorbus::link
