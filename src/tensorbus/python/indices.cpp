// Checks the indices of PyTorch's sparse and nested tensors, because they determine which memory is
// read. They are first copied out of the memory of the bus, so that no peer can change them after
// the check.
#include "tensorbus/tensor/indices.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {
namespace {

Memory private_copy(std::uintptr_t address, const std::string& dtype,
                    const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& strides) {
  Layout copy = layout_named(dtype, shape);
  copy.flags = TensorFlags::kFromTorch;
  const Layout layout{copy.dtype, copy.shape, Dims(std::span(strides)), copy.flags};
  std::shared_ptr<std::byte[]> bytes = run_without_gil(
      [&] { return tensor::private_copy_of(reinterpret_cast<const std::byte*>(address), layout); });
  std::byte* const first = bytes.get();
  return {.layout = std::move(copy),
          .first = first,
          .writable = true,
          .owner = std::move(bytes),
          .source = {}};
}

tensor::Indices indices_in(const Memory& memory) {
  const DType dtype = memory.layout.dtype;
  if (dtype != DType::kInt64 && dtype != DType::kInt32)
    throw Error(Code::kProtocol, "indices of " + std::string(name_of(dtype)));
  return {memory.first, memory.layout.elements(), dtype == DType::kInt64};
}

void check_coordinates_in(const Memory& indices, const std::vector<std::int64_t>& sizes,
                          std::size_t count, bool coalesced) {
  const WithoutGil without_gil;
  tensor::check_coordinates(indices_in(indices), sizes, count, coalesced);
}

void check_compressed_in(const Memory& begins, const Memory& columns, std::size_t batches,
                         std::int64_t size) {
  const WithoutGil without_gil;
  tensor::check_compressed(indices_in(begins), indices_in(columns), batches, size);
}

void check_jagged_in(const Memory& offsets, const Memory* lengths, std::int64_t rows) {
  const WithoutGil without_gil;
  if (lengths == nullptr) return tensor::check_jagged(indices_in(offsets), nullptr, rows);
  const tensor::Indices known = indices_in(*lengths);
  tensor::check_jagged(indices_in(offsets), &known, rows);
}

void check_nested_in(const Memory& sizes, const Memory& strides, const Memory& offsets,
                     std::int64_t elements) {
  const WithoutGil without_gil;
  tensor::check_nested(indices_in(sizes), indices_in(strides), indices_in(offsets), elements);
}

}  // namespace

void bind_indices(nb::module_& module) {
  module.def("private_copy", private_copy, nb::arg("address"), nb::arg("dtype"), nb::arg("shape"),
             nb::arg("strides"),
             nb::sig("def private_copy(address: int, dtype: str, shape: "
                     "collections.abc.Sequence[int], strides: collections.abc.Sequence[int]) -> "
                     "Memory"),
             "Returns a row-major copy of the elements in private memory. Strides are in "
             "elements.");
  // Each check raises ProtocolError; see tensor/indices.hpp. The arguments are private_copy()s.
  module.def("check_coordinates", check_coordinates_in, nb::arg("indices"), nb::arg("sizes"),
             nb::arg("count"), nb::arg("coalesced"),
             nb::sig("def check_coordinates(indices: Memory, sizes: "
                     "collections.abc.Sequence[int], count: int, coalesced: bool) -> None"));
  module.def("check_compressed", check_compressed_in, nb::arg("begins"), nb::arg("columns"),
             nb::arg("batches"), nb::arg("size"));
  module.def("check_jagged", check_jagged_in, nb::arg("offsets"), nb::arg("lengths").none(),
             nb::arg("rows"));
  module.def("check_nested", check_nested_in, nb::arg("sizes"), nb::arg("strides"),
             nb::arg("offsets"), nb::arg("elements"));
}

}  // namespace tensorbus::python
