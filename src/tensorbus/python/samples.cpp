// What was received.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string>
#include <string_view>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {
namespace {

nb::bytes field_bytes(const Sample& self) {
  const auto bytes = self.field_bytes();
  return nb::bytes(bytes.data(), bytes.size());
}

Memory memory(const Sample& self, std::size_t index) {
  if (index >= self.tensors().size())
    throw Error(Code::kProtocol, "sample.fields: there is no tensor " + std::to_string(index));
  return memory_of(self.tensors()[index], self.header().topic);
}

nb::list tensors(const Sample& self, std::optional<std::string_view> as) {
  nb::list list;
  for (std::size_t i = 0; i < self.tensors().size(); ++i) {
    Memory found = memory(self, i);
    const bool torch = as ? *as == "torch" : has(found.layout.flags, TensorFlags::kFromTorch);
    list.append(torch && can_be_plain_torch(found) ? make_plain_torch(std::move(found))
                                                   : nb::cast(std::move(found)));
  }
  return list;
}

}  // namespace

void bind_samples(nb::module_& module) {
  nb::class_<Sample>(module, "Sample", "One received message.")
      .def_prop_ro("sequence", [](const Sample& self) { return self.header().sequence; })
      .def_prop_ro("timestamp_ns", [](const Sample& self) { return self.header().timestamp_ns; })
      .def_prop_ro("fingerprint", [](const Sample& self) { return self.header().fingerprint; })
      .def_prop_ro("topic", [](const Sample& self) { return self.header().topic; })
      .def_prop_ro("publisher", [](const Sample& self) { return self.header().publisher.hex(); })
      .def_prop_ro("publisher_number",
                   [](const Sample& self) { return self.header().publisher_number; })
      .def_prop_ro("fields", field_bytes)
      .def_prop_ro("tensor_count", [](const Sample& self) { return self.tensors().size(); })
      .def("tensors", tensors, nb::arg("as_").none(),
           nb::sig("def tensors(self, as_: str | None) -> list[typing.Any]"),
           "Each a torch.Tensor, if that is wanted (None: if it was one) and nothing about it is "
           "unusual; else its Memory.")
      .def("memory", memory, nb::arg("index"))
      .def("copy", &Sample::copy, nb::call_guard<WithoutGil>());
}

}  // namespace tensorbus::python
