#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/index_of.hpp"

namespace tensorbus::python {

// Describes a torch.Tensor or a numpy.ndarray if its place and layout are all there is to send.
// Returns nothing for any other object.
std::optional<TensorView> plain_view_of(nb::handle value);
// The same of an array or tensor that may be written; nothing for any other object.
std::optional<TensorView> writable_view_of(nb::handle value);

// The tensors of a message that is about to be published, and the objects that keep them until
// then. Used with the GIL.
class Outgoing {
 public:
  // Adds a torch.Tensor or a numpy.ndarray if its place and layout are all there is to send.
  // Returns its index, the same for an object that was added before; -1 for anything else.
  int add(nb::handle value);
  // Adds an object with the buffer protocol; -1 if its elements have none of our dtypes.
  int add_buffer(nb::handle value, TensorFlags flags);
  // Adds a Memory: received, or this process's own.
  int add_received(nb::object memory);
  int add_capsule(nb::capsule capsule, TensorFlags flags);
  // Adds memory that the caller describes; strides in elements. `keeper` lives until the memory was
  // copied; for GPU memory as long as it is read.
  int add_memory(std::uintptr_t address, const std::string& dtype,
                 const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                 TensorFlags flags, nb::object keeper, Device device, std::uintptr_t stream);
  // Adds a tensor in a loan, a memoryview of its bytes; strides in elements, and `offset` in bytes
  // is that of the first element. Throws Error(kInvalidArgument) if it reaches outside.
  int add_at(nb::handle loan, const std::string& dtype, const std::vector<std::int64_t>& shape,
             const std::vector<std::int64_t>& strides, TensorFlags flags, std::int64_t offset);
  // Sets the stream on which all tensors on GPUs are written. It replaces earlier values.
  void set_stream(std::uintptr_t stream);

  // Makes room for so many tensors.
  void reserve(std::size_t tensors) {
    tensors_.reserve(tensors);
    keepers_.reserve(tensors);
  }
  std::size_t size() const noexcept { return tensors_.size(); }
  // Returns the message of these fields; the objects that keep its tensors stay until clear().
  // Throws Error(kInvalidArgument) if the tensors were taken before: a message is sent once.
  Message take(std::span<const std::byte> fields) {
    if (taken_) throw Error(Code::kInvalidArgument, "this message has been sent: make it anew");
    taken_ = !tensors_.empty();
    return {.tensors = std::exchange(tensors_, {}), .fields = fields};
  }
  Message take(const nb::bytes& fields) {
    return take(std::span(static_cast<const std::byte*>(fields.data()), fields.size()));
  }
  void clear();

 private:
  int append(TensorView view, nb::object keeper);
  int append_kept(TensorView view, nb::object keeper);

  std::vector<TensorView> tensors_;
  bool taken_ = false;  // and nothing was added since
  std::vector<nb::object> keepers_;
  IndexOf indices_;  // of the objects that add() added
};

}  // namespace tensorbus::python
