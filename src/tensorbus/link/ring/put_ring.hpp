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

// The ring by which one client puts items into one queue (docs/internals/protocol.md, section 7,
// "Rings of producers"). The client makes the memory; both ends map it writable. Invariants:
// 1. An entry is in the queue exactly if its position is below the tail. Only the client moves the
//    tail, and never above the limit.
// 2. Only the queue's server moves the limit. Client and server change one word by
//    compare-and-swap. So a limit that is lowered to the tail also stops a client that is about to
//    put, or that was suspended.
// 3. The limit exceeds the server's read position by at most the number of slots: the client writes
//    to no slot that the server may still read.

// Tail and limit in one word. Positions count modulo 2^32.
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
  static constexpr std::size_t kMaxBytes = 232;
  std::uint64_t at_ns = 0;  // time of the put, by the monotonic clock, which all processes share
  std::uint64_t token = 0;  // the client's lease on the item; 0: none
  std::uint32_t length = 0;
  std::uint32_t zero = 0;
  std::array<std::byte, kMaxBytes> bytes;  // the descriptor
};
static_assert(sizeof(PutSlot) == 256);

struct PutRingHeader {
  alignas(64) platform::Atomic<std::uint64_t> room{0};
  platform::Atomic<std::uint32_t> over{0};  // 1: the client puts nothing more
  // Shows whether the server waits for an entry. A client that swaps it to kNotWaiting wakes the
  // server: by QUEUE_WAKE, or by `wake`, on which a thread of the server sleeps.
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
  // The server's end: maps the memory that it received. Throws Error(kProtocol).
  explicit PutRingSegment(platform::Fd memfd);

  PutRingHeader& header() const noexcept {
    return *reinterpret_cast<PutRingHeader*>(mapping_.data());
  }
  std::span<PutSlot> slots() const noexcept {
    return {reinterpret_cast<PutSlot*>(mapping_.data() + kHeaderBytes), kSlots};
  }
  // Returns the descriptor for sending. Called once.
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

  // Returns the room, in entries. The server may take room back at any time.
  std::uint32_t room() const noexcept { return read().left(); }
  // Writes the i-th entry after the tail; i must be below room(). It is not visible yet.
  void write(std::uint32_t i, std::span<const std::byte> bytes, std::uint64_t at_ns,
             std::uint64_t token = 0) noexcept {
    PutSlot& slot = slots_[(tail_ + i) & (slots_.size() - 1)];
    slot.at_ns = at_ns;
    slot.token = token;
    slot.length = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(slot.bytes.data(), bytes.data(), bytes.size());
    platform::kill_point("put_ring.written");
  }
  // Puts the first `count` written entries into the queue; fewer if the server has taken room back.
  // Returns their number. They stay in the queue even if this process dies now.
  std::uint32_t commit(std::uint32_t count) noexcept {
    std::uint64_t word = header_->room.load(std::memory_order_relaxed);
    std::uint32_t put = 0;
    PutRoom after;
    do {
      const PutRoom room = PutRoom::unpack(word);
      put = std::min(count, room.left());
      if (put == 0) return 0;
      after = {tail_ + put, room.limit};
      // Sequentially consistent: after the entries, for the server's acquire, and before wakes(),
      // as in Waker::wake_if_sleeping().
    } while (!header_->room.compare_exchange_strong(word, after.packed(), std::memory_order_seq_cst,
                                                    std::memory_order_relaxed));
    tail_ += put;
    platform::kill_point("put_ring.committed");
    return put;
  }
  // Marks the end. Release: after the last commit().
  void end() noexcept { header_->over.store(1, std::memory_order_release); }
  // Called after commit(). Wakes a thread of the server that sleeps on the ring. Returns true if
  // the caller must wake the server by message.
  bool wakes() noexcept {
    // Sequentially consistent: after the swap of commit(). Pairs with PutRingReader::wait().
    if (header_->waits.load(std::memory_order_seq_cst) == PutRingHeader::kNotWaiting) return false;
    // Relaxed: the addition depends on the result. Pairs with PutRingSleeper::begin().
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
    // Acquire: pairs with the server's change of the limit. The server no longer reads the slots.
    return PutRoom::unpack(header_->room.load(std::memory_order_acquire));
  }

  PutRingHeader* header_;
  std::span<PutSlot> slots_;
  std::uint32_t tail_ = 0;
};

// The server's end. Not thread-safe: used on the event loop. All data is untrusted input.
class PutRingReader {
 public:
  explicit PutRingReader(const PutRingSegment& segment)
      : PutRingReader(segment.header(), segment.slots()) {}
  PutRingReader(PutRingHeader& header, std::span<PutSlot> slots)
      : header_(&header), slots_(slots) {}

  std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  // Returns the number of entries to be read. Acquire: pairs with commit().
  std::uint32_t waiting() noexcept {
    return tail_of(header_->room.load(std::memory_order_acquire)) - head_;
  }
  // Returns the i-th waiting entry; the client may still change its bytes.
  const PutSlot& at(std::uint32_t i) const noexcept {
    return slots_[(head_ + i) & (slots_.size() - 1)];
  }
  // Called when the next entry was read.
  void pop() noexcept { ++head_; }
  // Returns the number of entries for which room is promised and that were not read yet.
  std::uint32_t promised() const noexcept { return limit_ - head_; }
  void promise(std::uint32_t more) noexcept {
    change_limit([&](std::uint32_t) { return limit_ + more; });
  }
  // Takes unused room back. Afterwards no entry is put until more room is promised.
  void take_back() noexcept {
    change_limit([](std::uint32_t tail) { return tail; });
  }
  // Sets whether the client wakes the server for the next entry. The caller checks for entries
  // afterwards.
  void wait(bool waits) noexcept {
    // Relaxed: only the client changes it concurrently, and only to kNotWaiting. A client that is
    // about to do so has already put its entry, and wakes the server.
    if (waits == (header_->waits.load(std::memory_order_relaxed) != PutRingHeader::kNotWaiting))
      return;
    header_->waits.store(waits ? PutRingHeader::kWaits : PutRingHeader::kNotWaiting,
                         std::memory_order_relaxed);
    // Pairs with PutRingWriter::wakes(): the client sees the word, or the server sees its entry.
    platform::atomic_fence(std::memory_order_seq_cst);
  }
  // Returns true if the client puts nothing more: the result of waiting() is then final. Acquire:
  // pairs with end().
  bool over() const noexcept {
    return broken_ || header_->over.load(std::memory_order_acquire) != 0;
  }
  // Returns true if the client wrote an invalid tail. Then nothing more is read.
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
      // Release: after the reads of slots that the client may now overwrite. No acquire is needed
      // here: waiting() acquires before an entry is read.
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

// Lets a thread of the server sleep until there is an entry, after PutRingReader::wait(true) and a
// check for entries. Any thread may use it.
class PutRingSleeper {
 public:
  explicit PutRingSleeper(PutRingHeader& header) noexcept : header_(&header) {}

  // Makes the client wake this thread instead of the server (another thread may have done so).
  // Returns the word to sleep on; empty if the client has already sent a wake-up, so that the
  // server must check for entries.
  std::optional<platform::FutexWord> begin() noexcept {
    // Acquire: read before the swap below. A client that sees the swap adds to this word.
    const std::uint32_t expected = header_->wake.load(std::memory_order_acquire);
    if (swap(PutRingHeader::kWaits, PutRingHeader::kSleeps) ||
        header_->waits.load(std::memory_order_relaxed) == PutRingHeader::kSleeps)
      return platform::FutexWord{&header_->wake, expected};
    return std::nullopt;
  }
  // Makes the client wake the server again. Returns false if the server must check for entries: the
  // client has woken this thread, or another thread left first.
  bool end() noexcept { return swap(PutRingHeader::kSleeps, PutRingHeader::kWaits); }

 private:
  bool swap(std::uint32_t from, std::uint32_t to) noexcept {
    return header_->waits.compare_exchange_strong(from, to, std::memory_order_relaxed,
                                                  std::memory_order_relaxed);
  }

  PutRingHeader* header_;
};

}  // namespace tensorbus::link
