#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/index_of.hpp"

namespace tensorbus::python {

// Describes a plain torch.Tensor or numpy.ndarray, which has nothing to send except its elements
// and layout. Returns nothing for any other object.
std::optional<TensorView> plain_view_of(nb::handle value);
// Describes a writable plain array or tensor. Returns nothing for any other object.
std::optional<TensorView> writable_view_of(nb::handle value);

// The tensors of a message to be published, and the objects that keep them until then. Used with
// the GIL.
class Outgoing {
 public:
  // Adds a plain torch.Tensor or numpy.ndarray. Returns its index, which is the same if the object
  // was added before; -1 for any other object.
  int add(nb::handle value);
  // Adds an object with the buffer protocol. Returns -1 if its elements have no dtype.
  int add_buffer(nb::handle value, TensorFlags flags);
  // Adds a Memory as it is: a received one, or one of this process.
  int add_received(nb::object memory);
  int add_capsule(nb::capsule capsule, TensorFlags flags);
  // Adds memory that the caller describes. Strides are in elements. `keeper` is kept until the
  // memory is copied; for GPU memory, as long as the memory is read.
  int add_memory(std::uintptr_t address, const std::string& dtype,
                 const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                 TensorFlags flags, nb::object keeper, Device device, std::uintptr_t stream);
  // Adds a tensor in a loan, given by a memoryview of its bytes. Strides are in elements, the
  // offset of the first element is in bytes. Throws Error(kInvalidArgument) if the tensor reaches
  // outside of the loan.
  int add_at(nb::handle loan, const std::string& dtype, const std::vector<std::int64_t>& shape,
             const std::vector<std::int64_t>& strides, TensorFlags flags, std::int64_t offset);
  // Sets the CUDA stream that writes all tensors on GPUs. It replaces earlier values.
  void set_stream(std::uintptr_t stream);

  void reserve(std::size_t tensors) {
    tensors_.reserve(tensors);
    keepers_.reserve(tensors);
  }
  std::size_t size() const noexcept { return tensors_.size(); }
  // Returns the message with these fields. The objects that keep its tensors stay until clear().
  // Throws Error(kInvalidArgument) if the tensors were taken before, because a message is sent only
  // once.
  Message take(std::span<const std::byte> fields) {
    if (taken_) throw Error(Code::kInvalidArgument, "this message has been sent: make a new one");
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
  bool taken_ = false;  // the tensors were taken, and none was added since
  std::vector<nb::object> keepers_;
  IndexOf indices_;  // of objects added by add()
};

}  // namespace tensorbus::python
