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
#include "tensorbus/platform/waiting/futex.hpp"

namespace tensorbus::link {

// The ring by which one client puts items into one queue (docs/protocol.md, section 7, "Rings of
// producers"). The client makes the memory; both map it writable. Invariants:
// 1. An entry is in the queue exactly if its position is below the tail, which only the client
//    moves, and only to positions that are not above the limit.
// 2. Only the host moves the limit. Both change one word by compare-and-swap, so that a limit that
//    was lowered to the tail holds for a client that is about to put, or stopped.
// 3. The limit is never above what the host has read by more than the slots: the client writes to
//    no slot that the host may still read.

// The word of both: positions, counted modulo 2^32.
struct PutRoom {
  std::uint32_t tail = 0;
  std::uint32_t limit = 0;

  std::uint32_t left() const noexcept { return limit - tail; }
  std::uint64_t packed() const noexcept { return std::uint64_t{limit} << 32 | tail; }
  static PutRoom unpack(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
};

struct alignas(64) PutSlot {
  static constexpr std::size_t kMostBytes = 232;
  std::uint64_t at_ns = 0;  // when it was put: of the monotonic clock, which all processes share
  std::uint64_t token = 0;  // the client's lease on the item, 0: none
  std::uint32_t length = 0;
  std::uint32_t zero = 0;
  std::array<std::byte, kMostBytes> bytes;  // the descriptor
};
static_assert(sizeof(PutSlot) == 256);

struct PutRingHeader {
  alignas(64) platform::Atomic<std::uint64_t> room{0};
  platform::Atomic<std::uint32_t> over{0};  // 1: the client puts nothing more
  // Whether the host waits for an entry, and how the client wakes it that swaps it to kNotWaiting:
  // by QUEUE_WAKE, or by `wake`, on which a thread of the host sleeps.
  alignas(64) platform::Atomic<std::uint32_t> waits{kNotWaiting};
  platform::Atomic<std::uint32_t> wake{0};
  static constexpr std::uint32_t kNotWaiting = 0;
  static constexpr std::uint32_t kWaits = 1;
  static constexpr std::uint32_t kSleeps = 2;
};

// Owns the memory of one ring.
class PutRingSegment {
 public:
  static constexpr std::uint32_t kSlots = 128;
  static constexpr std::size_t kHeaderBytes = 4096;
  static constexpr std::size_t kBytes = kHeaderBytes + kSlots * sizeof(PutSlot);

  // The client's end: makes the memory. Throws Error(kOutOfMemory).
  PutRingSegment();
  // The host's end: maps the memory it was sent. Throws Error(kProtocol).
  explicit PutRingSegment(platform::Fd memfd);

  PutRingHeader& header() const noexcept {
    return *reinterpret_cast<PutRingHeader*>(mapping_.data());
  }
  std::span<PutSlot> slots() const noexcept {
    return {reinterpret_cast<PutSlot*>(mapping_.data() + kHeaderBytes), kSlots};
  }
  // Returns the descriptor, once, to be sent.
  platform::Fd take_descriptor() noexcept { return std::move(memfd_); }

 private:
  platform::Fd memfd_;
  platform::Mapping mapping_;
};

// The client's end. Not thread-safe.
class PutRingWriter {
 public:
  explicit PutRingWriter(const PutRingSegment& segment)
      : PutRingWriter(segment.header(), segment.slots()) {}
  PutRingWriter(PutRingHeader& header, std::span<PutSlot> slots)
      : header_(&header), slots_(slots) {}

  // Returns how many entries there is room for. The host may take room back at any time.
  std::uint32_t room() const noexcept { return read().left(); }
  // Writes the i-th entry from now, which must be below room(). Nobody sees it.
  void write(std::uint32_t i, std::span<const std::byte> bytes, std::uint64_t at_ns,
             std::uint64_t token = 0) noexcept {
    PutSlot& slot = slots_[(tail_ + i) & (slots_.size() - 1)];
    slot.at_ns = at_ns;
    slot.token = token;
    slot.length = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(slot.bytes.data(), bytes.data(), bytes.size());
    platform::kill_point("put_ring.written");
  }
  // Puts the first `count` entries that were written into the queue; fewer if the host has taken
  // room back. Returns how many: these stay in the queue, even if this process dies now.
  std::uint32_t commit(std::uint32_t count) noexcept {
    std::uint64_t word = header_->room.load(std::memory_order_relaxed);
    std::uint32_t put = 0;
    PutRoom after;
    do {
      const PutRoom room = PutRoom::unpack(word);
      put = std::min(count, room.left());
      if (put == 0) return 0;
      after = {tail_ + put, room.limit};
      // Sequentially consistent: the entries come before it, for the host's acquire; and it comes
      // before wakes(), as in Waker::wake_if_sleeping().
    } while (!header_->room.compare_exchange_strong(word, after.packed(), std::memory_order_seq_cst,
                                                    std::memory_order_relaxed));
    tail_ += put;
    platform::kill_point("put_ring.committed");
    return put;
  }
  // Nothing more is put. Release: comes after the last commit().
  void end() noexcept { header_->over.store(1, std::memory_order_release); }
  // After commit(): wakes a thread of the host that sleeps on the ring. Returns true if the caller
  // must wake the host by message.
  bool wakes() noexcept {
    // Sequentially consistent: after the swap of commit(). Pairs with PutRingReader::wait().
    if (header_->waits.load(std::memory_order_seq_cst) == PutRingHeader::kNotWaiting) return false;
    // Relaxed: the addition depends on what it returns. Pairs with PutRingSleeper::begin().
    const std::uint32_t waited =
        header_->waits.exchange(PutRingHeader::kNotWaiting, std::memory_order_relaxed);
    platform::kill_point("put_ring.wakes");
    if (waited != PutRingHeader::kSleeps) return waited != PutRingHeader::kNotWaiting;
    header_->wake.fetch_add(1, std::memory_order_relaxed);
    platform::futex_wake_all(header_->wake);
    return false;
  }

 private:
  PutRoom read() const noexcept {
    // Acquire: pairs with the host's change of the limit, after which it reads the slots no more.
    return PutRoom::unpack(header_->room.load(std::memory_order_acquire));
  }

  PutRingHeader* header_;
  std::span<PutSlot> slots_;
  std::uint32_t tail_ = 0;
};

// The host's end. Not thread-safe: on the event loop. Trusts nothing that it reads.
class PutRingReader {
 public:
  explicit PutRingReader(const PutRingSegment& segment)
      : PutRingReader(segment.header(), segment.slots()) {}
  PutRingReader(PutRingHeader& header, std::span<PutSlot> slots)
      : header_(&header), slots_(slots) {}

  std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  // Returns how many entries wait to be read. Acquire: pairs with commit().
  std::uint32_t waiting() noexcept {
    return tail_of(header_->room.load(std::memory_order_acquire)) - head_;
  }
  // Returns the i-th of them; the bytes are the client's, which may change them.
  const PutSlot& at(std::uint32_t i) const noexcept {
    return slots_[(head_ + i) & (slots_.size() - 1)];
  }
  // The next entry was read.
  void pop() noexcept { ++head_; }
  // Returns for how many entries there was room promised that were not read yet.
  std::uint32_t promised() const noexcept { return limit_ - head_; }
  // Promises room for so many more.
  void promise(std::uint32_t more) noexcept {
    change_limit([&](std::uint32_t) { return limit_ + more; });
  }
  // Takes back what has no entry yet. From now on none is put, before more is promised.
  void take_back() noexcept {
    change_limit([](std::uint32_t tail) { return tail; });
  }
  // Has the client wake us for the next entry, if it is not to do so already; or not. The caller
  // looks for entries afterwards.
  void wait(bool waits) noexcept {
    // Relaxed: only the client changes it meanwhile, and to kNotWaiting. If it is about to, it has
    // put its entry before, and wakes us.
    if (waits == (header_->waits.load(std::memory_order_relaxed) != PutRingHeader::kNotWaiting))
      return;
    header_->waits.store(waits ? PutRingHeader::kWaits : PutRingHeader::kNotWaiting,
                         std::memory_order_relaxed);
    // Pairs with PutRingWriter::wakes(): it sees the word, or we see its entry.
    platform::atomic_fence(std::memory_order_seq_cst);
  }
  // Returns true if the client puts nothing more: what waiting() returns from now on is all.
  // Acquire: pairs with end().
  bool over() const noexcept {
    return broken_ || header_->over.load(std::memory_order_acquire) != 0;
  }
  // Returns true if the client wrote a tail that no client writes. Nothing more is read then.
  bool broken() const noexcept { return broken_; }

 private:
  std::uint32_t tail_of(std::uint64_t word) noexcept {
    const std::uint32_t tail = PutRoom::unpack(word).tail;
    if (tail - head_ > limit_ - head_) broken_ = true;
    return broken_ ? head_ : tail;
  }
  template <typename Limit>
  void change_limit(Limit limit) noexcept {
    std::uint64_t word = header_->room.load(std::memory_order_relaxed);
    std::uint32_t next = 0;
    do {
      next = limit(tail_of(word));
      if (broken_) return;
      // Release: what was read before, of slots that may be written now. It acquires nothing:
      // waiting() does, before an entry is read.
    } while (!header_->room.compare_exchange_strong(
        word, PutRoom{PutRoom::unpack(word).tail, next}.packed(), std::memory_order_release,
        std::memory_order_relaxed));
    limit_ = next;
  }

  PutRingHeader* header_;
  std::span<PutSlot> slots_;
  std::uint32_t head_ = 0;
  std::uint32_t limit_ = 0;
  bool broken_ = false;
};

// A thread of the host that sleeps until there is an entry, after PutRingReader::wait(true) and a
// look. For any thread.
class PutRingSleeper {
 public:
  explicit PutRingSleeper(PutRingHeader& header) noexcept : header_(&header) {}

  // Has the client wake this thread, in the place of the host; as another thread may have done.
  // Returns what to sleep on; nothing if the client has woken somebody: the host is to look.
  std::optional<platform::FutexWord> begin() noexcept {
    // Acquire: read before the swap below. A client that sees that adds to it.
    const std::uint32_t expected = header_->wake.load(std::memory_order_acquire);
    if (swap(PutRingHeader::kWaits, PutRingHeader::kSleeps) ||
        header_->waits.load(std::memory_order_relaxed) == PutRingHeader::kSleeps)
      return platform::FutexWord{&header_->wake, expected};
    return std::nullopt;
  }
  // Has the client wake the host. Returns false if the host is to look: the client has woken this
  // thread, or another thread was the first to leave.
  bool end() noexcept { return swap(PutRingHeader::kSleeps, PutRingHeader::kWaits); }

 private:
  bool swap(std::uint32_t from, std::uint32_t to) noexcept {
    return header_->waits.compare_exchange_strong(from, to, std::memory_order_relaxed,
                                                  std::memory_order_relaxed);
  }

  PutRingHeader* header_;
};

}  // namespace tensorbus::link
