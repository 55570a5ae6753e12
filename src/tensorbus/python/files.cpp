// Mapped files. tensorbus/_files reads their contents.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"
#include "tensorbus/tensor/files/safetensors_file.hpp"

namespace tensorbus::python {
namespace {

using memory::MappedFile;

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::kInvalidArgument, why); }

// Returns a contiguous tensor at `offset` of the mapping.
Memory memory_at(const std::shared_ptr<MappedFile>& self, std::string_view dtype,
                 const std::vector<std::int64_t>& shape, std::size_t offset) {
  const auto known = dtype_named(dtype);
  if (!known) refuse("dtype '" + std::string(dtype) + "': unknown dtype");
  Layout layout = Layout::contiguous(*known, Dims(std::span(shape)));
  const std::span<std::byte> bytes = self->bytes();
  const std::size_t needed = span_of(layout).bytes();
  if (offset > bytes.size() || needed > bytes.size() - offset)
    refuse("file '" + self->path() + "': " + std::to_string(needed) + " bytes at " +
           std::to_string(offset) + " exceed the " + std::to_string(bytes.size()) +
           " mapped bytes");
  std::byte* const first = needed == 0 ? nullptr : bytes.data() + offset;
  return {std::move(layout),
          first,
          self->mode() != MappedFile::Mode::kRead,
          self,
          self->path(),
          platform::ReadOnlyNote::From::kFile};
}

// Reads the header of a .safetensors file. Returns the offset of the first tensor, the size of all
// tensors in bytes, the tensors by name, and the metadata. For each tensor: the name of its element
// type in the file, the dtype (None if it is not supported), the size of an element in bytes, the
// shape and the offset.
nb::tuple safetensors(int fd, const PathBytes& path) try {
  const tensor::FileContents found =
      run_without_gil([&] { return tensor::safetensors_contents(tensor::FileBytes(fd)); });
  nb::dict tensors;
  for (const tensor::FilePlace& place : found.tensors) {
    nb::object dtype = nb::none();
    std::size_t item = 0;
    nb::list shape;
    if (place.layout) {
      dtype = nb::cast(name_of(place.layout->dtype));
      item = item_bytes(place.layout->dtype);
      for (const std::int64_t size : place.layout->shape) shape.append(size);
    }
    tensors[nb::cast(place.name)] =
        nb::make_tuple(place.elements, dtype, item, shape, place.offset);
  }
  nb::dict metadata;
  for (const auto& [key, text] : found.metadata) metadata[nb::cast(key)] = text;
  return nb::make_tuple(found.start, found.bytes, tensors, metadata);
} catch (const Error& error) {
  throw Error(error.code(), "file '" + path.bytes + "': " + error.what());
}

void flush_at(std::size_t address) {
  const MappedFile* file = MappedFile::at(reinterpret_cast<const void*>(address));
  if (file == nullptr)
    refuse(
        "this tensor is not in a mapped file: only tensors of map_file(), and views of them, can "
        "be flushed");
  const WithoutGil without_gil;
  file->flush();
}

}  // namespace

void bind_files(nb::module_& module) {
  nb::enum_<MappedFile::Mode>(module, "FileMode", "What writing to a mapped file does.")
      .value("READ", MappedFile::Mode::kRead)
      .value("READ_WRITE", MappedFile::Mode::kReadWrite)
      .value("COPY_ON_WRITE", MappedFile::Mode::kCopyOnWrite);

  nb::class_<MappedFile>(module, "MappedFile", "A part of a file, mapped into memory.")
      .def(nb::new_([](int fd, const PathBytes& path, std::size_t offset, std::size_t bytes,
                       MappedFile::Mode mode) {
             return std::make_shared<MappedFile>(fd, path.bytes, offset, bytes, mode);
           }),
           nb::arg("fd"), nb::arg("path"), nb::arg("offset"), nb::arg("bytes"), nb::arg("mode"))
      .def_prop_ro("mode", &MappedFile::mode)
      .def("memory", memory_at, nb::arg("dtype"), nb::arg("shape"), nb::arg("offset"),
           nb::sig("def memory(self, dtype: str, shape: collections.abc.Sequence[int], offset: "
                   "int) -> Memory"),
           "Returns a contiguous tensor, `offset` bytes after the first mapped byte.")
      .def("check", &MappedFile::check, nb::call_guard<WithoutGil>())
      .def("flush", &MappedFile::flush, nb::call_guard<WithoutGil>());

  module.def("safetensors", safetensors, nb::arg("fd"), nb::arg("path"),
             nb::sig("def safetensors(fd: int, path: str) -> tuple[int, int, dict[str, tuple[str, "
                     "str | None, int, list[int], int]], dict[str, str]]"),
             "Returns the contents of the header of a .safetensors file.");
  module.def("flush_at", flush_at, nb::arg("address"),
             "Flushes the file that is mapped at this address.");
  module.def(
      "is_in_file",
      [](std::size_t address) {
        return MappedFile::at(reinterpret_cast<const void*>(address)) != nullptr;
      },
      nb::arg("address"), "Returns True if map_file() has mapped a file at this address.");
  module.def(
      "allocate_file",
      [](int fd, const PathBytes& path, std::size_t bytes) {
        memory::allocate_file(fd, path.bytes, bytes);
      },
      nb::arg("fd"), nb::arg("path"), nb::arg("bytes"), nb::call_guard<WithoutGil>(),
      "Sets the size of a file to `bytes`, and allocates all its blocks.");
}

}  // namespace tensorbus::python
