#pragma once

#include <cstddef>
#include <span>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <vector>

#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// Plans the copy of a message's tensors that lie outside the arena into one block. Tensors that
// overlap in memory (views of one another) keep their relative places: the copies overlap too, and
// every byte is copied once. Not thread-safe.
class CopyPlan {
 public:
  struct Copy {
    std::size_t tensor = 0;  // the tensor's index in the message
    const TensorView* view = nullptr;
    ByteSpan span;          // of the view
    Layout layout;          // of the copy
    std::size_t place = 0;  // of the copy's lowest byte, in the block
    bool covered = false;   // another copy includes its bytes
  };

  // `span`: the span of the view, not empty. The view must outlive the plan. `expected`: number of
  // views that will probably be added, including this one.
  void add(std::size_t tensor, const TensorView& view, ByteSpan span, std::size_t expected = 1);
  // Gives every copy its layout and place; returns the size of the block in bytes.
  std::size_t lay_out();

  std::span<const Copy> copies() const noexcept { return copies_; }
  // Fills the block; returns the number of copied bytes.
  std::size_t fill(std::byte* block, tensor::Stores stores) const;

 private:
  void sort();
  void lay_out_alone(Copy& copy);
  void lay_out_together(std::span<Copy> overlapping);

  std::vector<Copy> copies_;
  std::size_t bytes_ = 0;
};

}  // namespace tensorbus::bus
