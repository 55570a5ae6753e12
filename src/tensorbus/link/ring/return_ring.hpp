#pragma once

#include <cstdint>
#include <span>

#include "tensorbus/platform/atomic.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::link {

// The ring of leases that the borrower returns. It has a slot for every lease that can be
// outstanding on the link, rounded up to a power of two. So the borrower never waits, and never
// reads the owner's position.
using ReturnWord = platform::Atomic<std::uint64_t>;
struct ReturnSlot {
  ReturnWord token{0};
  ReturnWord mark{0};  // packed, of the borrower's timeline: when reached, the lease is returned
};
static_assert(sizeof(ReturnSlot) == 16);

// The borrower's end. Not thread-safe: guarded by the link's release mutex.
class ReturnRingWriter {
 public:
  ReturnRingWriter() = default;
  ReturnRingWriter(ReturnWord* tail, std::span<ReturnSlot> slots) : tail_(tail), slots_(slots) {}

  void push(std::uint64_t token, std::uint64_t mark = 0) noexcept {
    write(token, mark);
    move_tail();
  }
  // Pushes all tokens with one store of the tail: the owner sees none or all of them.
  void push(std::span<const std::uint64_t> tokens) noexcept {
    for (const std::uint64_t token : tokens) write(token, 0);
    move_tail();
  }

 private:
  void write(std::uint64_t token, std::uint64_t mark) noexcept {
    ReturnSlot& slot = slots_[position_++ & (slots_.size() - 1)];
    slot.token.store(token, std::memory_order_relaxed);
    slot.mark.store(mark, std::memory_order_relaxed);
    platform::kill_point("release.token_written");
  }
  void move_tail() noexcept {
    // Release: after the borrower's last read of the tensor; pairs with the acquire in drain().
    tail_->store(position_, std::memory_order_release);
    platform::kill_point("release.tail_moved");
  }

  ReturnWord* tail_ = nullptr;
  std::span<ReturnSlot> slots_;
  std::uint64_t position_ = 0;
};

// The owner's end. Not thread-safe: guarded by the publisher's mutex.
class ReturnRingReader {
 public:
  ReturnRingReader() = default;
  ReturnRingReader(const ReturnWord* tail, std::span<const ReturnSlot> slots)
      : tail_(tail), slots_(slots) {}

  // Calls take(token, mark) for each returned lease. Returns false if the borrower's position is
  // invalid: then the caller ends the link.
  template <typename Take>
  [[nodiscard]] bool drain(Take take) {
    const std::uint64_t tail = tail_->load(std::memory_order_acquire);  // pairs with push()
    if (tail - position_ > slots_.size()) return false;
    for (; position_ != tail; ++position_) {
      const ReturnSlot& slot = slots_[position_ & (slots_.size() - 1)];
      take(slot.token.load(std::memory_order_relaxed), slot.mark.load(std::memory_order_relaxed));
    }
    return true;
  }

 private:
  const ReturnWord* tail_ = nullptr;
  std::span<const ReturnSlot> slots_;
  std::uint64_t position_ = 0;
};

}  // namespace tensorbus::link
