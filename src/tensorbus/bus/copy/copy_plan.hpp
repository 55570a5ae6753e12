#pragma once

#include <cstddef>
#include <span>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <vector>

#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// Where the tensors of a message that lie outside the arena go in the block that takes their
// copies. Tensors that overlap in memory, views of one another, keep their places to one another,
// so that they overlap in the copy too; every byte is copied once.
class CopyPlan {
 public:
  struct Copy {
    std::size_t tensor = 0;  // its index in the message
    const TensorView* view = nullptr;
    ByteSpan span;          // of the view
    Layout layout;          // of the copy
    std::size_t place = 0;  // of the lowest byte of the copy, in the block
    bool covered = false;   // another copy brings its bytes along
  };

  // `span` is the view's, and not empty. The view has to outlive the plan.
  void add(std::size_t tensor, const TensorView& view, ByteSpan span);
  // Gives every copy its layout and its place; returns the bytes of the block.
  std::size_t lay_out();

  std::span<const Copy> copies() const noexcept { return copies_; }
  // Fills the block; returns how many bytes were moved.
  std::size_t fill(std::byte* block, Stores stores) const;

 private:
  void lay_out_alone(Copy& copy);
  void lay_out_together(std::span<Copy> overlapping);

  std::vector<Copy> copies_;
  std::size_t bytes_ = 0;
};

}  // namespace tensorbus::bus
