#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <tensorbus/values/outcome.hpp>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// What a subscriber, a queue or a synchronizer receives, as a range. It owns no items: each
// iterator receives its own. `Receive` returns kDone and stores an item, or returns the outcome
// that ends the range.
template <typename Item>
class Received {
 public:
  using Receive = std::function<Outcome(Item&)>;

  // Single-pass and movable. Dereferencing gives an rvalue, as with std::generator: a loop may
  // refer to the item (const Item&) or move it (auto).
  class Iterator {
   public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    Iterator() = default;
    explicit Iterator(Receive receive) : receive_(std::move(receive)) { ++*this; }

    Item&& operator*() const noexcept { return std::move(item_); }
    // An exception ends the range, too.
    Iterator& operator++() {
      item_ = Item();  // is not held while the next item is awaited
      ended_ = true;
      ended_ = receive_(item_) != Outcome::kDone;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& at, std::default_sentinel_t) noexcept {
      return at.ended_;
    }

   private:
    Receive receive_;
    mutable Item item_{};
    bool ended_ = true;
  };

  Received() = default;
  explicit Received(Receive receive) : receive_(std::move(receive)) {}

  Iterator begin() const { return Iterator(receive_); }
  std::default_sentinel_t end() const noexcept { return {}; }
  Outcome receive(Item& item) const { return receive_(item); }

 private:
  Receive receive_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
