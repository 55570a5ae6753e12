#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tensorbus::python {

// Maps objects to indices with an open-addressed table of addresses. It is fast for the hundreds of
// lookups of a large message. The caller keeps the objects alive. Not thread-safe.
class IndexOf {
 public:
  // Returns -1 if the object was not entered.
  int find(const void* object) noexcept { return slots_.empty() ? -1 : slot_of(object).second; }
  void enter(const void* object, int index) {
    if (2 * count_ >= slots_.size()) grow();
    slot_of(object) = {object, index};
    ++count_;
  }
  void clear() noexcept {
    slots_.clear();
    count_ = 0;
  }

 private:
  using Slot = std::pair<const void*, int>;
  static constexpr Slot kFree{nullptr, -1};

  Slot& slot_of(const void* object) noexcept {
    const std::size_t mask = slots_.size() - 1;
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4): addresses of objects are multiples of 16.
    std::size_t at = (reinterpret_cast<std::uintptr_t>(object) * 0x9e3779b97f4a7c15ULL) >> 32;
    while (slots_[at & mask].first != nullptr && slots_[at & mask].first != object) ++at;
    return slots_[at & mask];
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size(), kFree);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.first != nullptr) slot_of(slot.first) = slot;
  }

  std::vector<Slot> slots_;  // the size is a power of two, or 0
  std::size_t count_ = 0;
};

}  // namespace tensorbus::python
