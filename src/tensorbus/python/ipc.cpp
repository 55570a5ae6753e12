// Raw CUDA IPC handles; tensorbus/cuda.py checks the arguments of users.
#include "tensorbus/bus/ipc.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {
namespace {

using Sizes = std::vector<std::int64_t>;

nb::tuple handle_of(std::uintptr_t address, std::size_t bytes) {
  const auto name = run_without_gil(
      [&] { return bus::ipc_name_of(reinterpret_cast<const void*>(address), bytes); });
  return nb::make_tuple(nb::bytes(name.handle.data(), name.handle.size()), name.offset,
                        name.allocation_bytes, name.device);
}

Memory opened(const nb::bytes& handle, std::size_t offset, const std::string& dtype,
              const Sizes& shape, const std::optional<Sizes>& strides, int device) {
  std::array<std::byte, 64> bytes{};
  if (handle.size() != bytes.size())
    throw Error(Code::kInvalidArgument,
                "handle: " + std::to_string(handle.size()) + " bytes, a cudaIpcMemHandle_t has 64");
  std::memcpy(bytes.data(), handle.data(), bytes.size());
  Layout layout = layout_named(dtype, shape);
  if (strides) layout.strides = Dims(std::span<const std::int64_t>(*strides));
  const ReceivedSample sample(
      run_without_gil([&] { return bus::open_ipc(bytes, offset, layout, Device::cuda(device)); }));
  return memory_of(sample.tensors().front(), sample);
}

}  // namespace

void bind_ipc(nb::module_& module) {
  module.def("ipc_handle_of", handle_of, nb::arg("address"), nb::arg("bytes"),
             nb::sig("def ipc_handle_of(address: int, bytes: int) -> tuple[bytes, int, int, int]"),
             "Returns the handle of the allocation that contains these bytes, the offset of the "
             "bytes in it, its size in bytes, and the ordinal of its GPU.");
  module.def("open_ipc", opened, nb::arg("handle"), nb::arg("offset"), nb::arg("dtype"),
             nb::arg("shape"), nb::arg("strides").none(), nb::arg("device"),
             "Opens memory by its handle. Strides are in elements, the offset is in bytes.");
}

}  // namespace tensorbus::python
