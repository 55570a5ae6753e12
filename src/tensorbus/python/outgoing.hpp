#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/index_of.hpp"

namespace tensorbus::python {

// Where a torch.Tensor or a numpy.ndarray lies, if there is no more to say of it; nothing for any
// other object.
std::optional<TensorView> plain_view_of(nb::handle value);

// The tensors of a message that is about to be published, and what keeps them until then.
class Outgoing {
 public:
  // Adds a torch.Tensor or a numpy.ndarray about which there is no more to say than where it lies.
  // Returns its index, which an object that was added before has already, or -1 for anything else.
  int add(nb::handle value);
  // The indices of all; nothing if one is anything else (those before it are added all the same).
  std::optional<std::vector<int>> add_all(nb::iterable values);
  // What offers the buffer protocol in the elements of one of our dtypes; -1 otherwise.
  int add_buffer(nb::handle value, TensorFlags flags);
  // A Memory: received, or this process's own.
  int add_received(nb::object memory);
  int add_capsule(nb::capsule capsule, TensorFlags flags);
  // Memory that the caller describes; strides in elements. `keeper` lives until it was copied, or,
  // of a GPU, as long as somebody reads it.
  int add_memory(std::uintptr_t address, const std::string& dtype,
                 const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                 TensorFlags flags, nb::object keeper, Device device, std::uintptr_t stream);
  // On which all that lies on GPUs is written, whatever was said before.
  void set_stream(std::uintptr_t stream);

  std::size_t size() const noexcept { return tensors_.size(); }
  // For the message; what keeps them stays here until clear().
  std::vector<TensorView> take_tensors() { return std::exchange(tensors_, {}); }
  void clear();

 private:
  int append(TensorView view, nb::object keeper);
  int append_kept(TensorView view, nb::object keeper);

  std::vector<TensorView> tensors_;
  std::vector<nb::object> keepers_;
  IndexOf indices_;  // of what add() added
};

}  // namespace tensorbus::python
