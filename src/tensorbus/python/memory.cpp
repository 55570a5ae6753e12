// Memory of the bus for Python, through the buffer protocol and DLPack.
#include "tensorbus/python/memory.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensorbus/python/dlpack/dlpack.hpp"
#include "tensorbus/tensor/indices.hpp"

namespace tensorbus::python {
namespace {

// Returns the format of the struct module for an element. Types without a format become unsigned
// integers.
const char* buffer_format(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "?";
    case DType::kInt8:
      return "b";
    case DType::kInt16:
      return "h";
    case DType::kInt32:
      return "i";
    case DType::kInt64:  // not "q": NumPy maps it to another type of the same size
      return sizeof(long) == 8 ? "l" : "q";
    case DType::kUInt64:
      return sizeof(long) == 8 ? "L" : "Q";
    case DType::kFloat16:
      return "e";
    case DType::kFloat32:
      return "f";
    case DType::kFloat64:
      return "d";
    case DType::kComplex64:
      return "Zf";
    case DType::kComplex128:
      return "Zd";
    default:
      break;
  }
  switch (item_bytes(dtype)) {
    case 1:
      return "B";
    case 2:
      return "H";
    case 4:
      return "I";
    default:
      return "Q";
  }
}

// Returns the type string of NumPy's array interface.
std::string type_string(DType dtype) {
  const std::string name(name_of(dtype));
  const char kind =
      dtype == DType::kBool                                                                    ? 'b'
      : name.starts_with("uint")                                                               ? 'u'
      : name.starts_with("int")                                                                ? 'i'
      : name.starts_with("float8") || name.starts_with("float4") || name.starts_with("bfloat") ? 'V'
      : name.starts_with("float")                                                              ? 'f'
      : name.starts_with("complex32")                                                          ? 'V'
      : name.starts_with("complex") ? 'c'
                                    : 'V';
  return (item_bytes(dtype) == 1 ? "|" : "<") + (kind + std::to_string(item_bytes(dtype)));
}

// The arrays of a Py_buffer, freed with it.
struct BufferShape {
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
  WriteWatch writes;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& memory = *nb::inst_ptr<Memory>(self);
  const auto refuse = [&](const char* why) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, why);
    return -1;
  };
  if (memory.device.is_cuda())
    return refuse("this tensor is on a GPU: take it by DLPack, or library=\"torch\"");
  if ((flags & PyBUF_WRITABLE) != 0 && !memory.may_be_written())
    return refuse("this tensor is read-only: copy it to write to it");
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !memory.layout.is_contiguous())
    return refuse("this tensor is not contiguous");
  const auto item = static_cast<Py_ssize_t>(item_bytes(memory.layout.dtype));
  auto shape = std::make_unique<BufferShape>();
  shape->shape.assign(memory.layout.shape.begin(), memory.layout.shape.end());
  for (const std::int64_t stride : memory.layout.strides) {
    Py_ssize_t bytes = 0;
    // The stride of a dimension of size 1 is not used, and a peer may send any value.
    if (__builtin_mul_overflow(stride, item, &bytes)) bytes = item;
    shape->strides.push_back(bytes);
  }
  shape->writes.begin(memory);
  static std::byte nothing{};  // an empty tensor may have no address, a buffer needs one
  view->buf = memory.first != nullptr ? memory.first : &nothing;
  view->obj = Py_NewRef(self);
  view->len = static_cast<Py_ssize_t>(memory.layout.packed_bytes());
  view->readonly = memory.may_be_written() ? 0 : 1;
  view->itemsize = item;
  view->format = const_cast<char*>(buffer_format(memory.layout.dtype));
  view->ndim = static_cast<int>(shape->shape.size());
  view->shape = shape->shape.data();
  view->strides = shape->strides.data();
  view->suboffsets = nullptr;
  view->internal = shape.release();
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<BufferShape*>(view->internal);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

std::pair<int, int> dlpack_device(const Memory& memory) {
  return memory.device.is_cuda() ? std::pair(int{kDLCuda}, memory.device.ordinal)
                                 : std::pair(int{kDLCpu}, 0);
}

// `stream` is as for __dlpack__: None and 1 are the legacy default stream, -1 means no stream.
void use_memory_on(const Memory& memory, nb::handle stream) {
  const auto number = stream.is_none() ? 1 : nb::cast<std::intptr_t>(stream);
  if (number == 0) throw nb::value_error("stream: 0 is ambiguous, pass 1 or 2");
  if (number == -1 || memory.received == nullptr) return;
  const WithoutGil guard;  // it may wait for the writer
  memory.received->use_on(reinterpret_cast<void*>(number));
}

// https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
nb::dict cuda_array_interface(const Memory& memory) {
  if (!memory.device.is_cuda()) throw nb::attribute_error("this tensor is in main memory");
  use_memory_on(memory, nb::none());
  const auto item = static_cast<std::int64_t>(item_bytes(memory.layout.dtype));
  Dims strides = memory.layout.strides;
  for (std::int64_t& stride : strides) stride *= item;
  nb::dict dict;
  dict["version"] = 3;
  dict["shape"] = to_tuple(memory.layout.shape);
  dict["strides"] = to_tuple(strides);
  dict["typestr"] = type_string(memory.layout.dtype);
  dict["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory.first), !memory.writable);
  dict["stream"] = 1;
  return dict;
}

using Version = std::optional<std::pair<int, int>>;

nb::capsule dlpack(const Memory& memory, nb::handle stream, Version max_version,
                   std::optional<std::pair<int, int>> device, std::optional<bool> copy) {
  if (device && *device != dlpack_device(memory))
    throw nb::buffer_error(memory.device.is_cuda()
                               ? "dl_device: this tensor is on a GPU, see __dlpack_device__"
                               : "dl_device: this tensor is in main memory, (1, 0)");
  if (memory.device.is_cuda())
    use_memory_on(memory, stream);
  else if (!stream.is_none() && nb::cast<std::intptr_t>(stream) != -1)
    throw nb::value_error("stream: expected None or -1 for a tensor in main memory");
  if (!to_dlpack(memory.layout.dtype))
    throw nb::buffer_error("DLPack has no type for these elements: use bits()");
  const bool versioned = max_version && max_version->first >= 1;
  // PyTorch ends the process if it gets negative strides.
  const bool needs_copy =
      std::ranges::any_of(memory.layout.strides, [](auto stride) { return stride < 0; });
  if (!copy.value_or(needs_copy)) {
    if (needs_copy) throw nb::buffer_error("copy=False: this tensor has negative strides");
    return make_capsule(memory, versioned, false);
  }
  return make_capsule(packed(memory), versioned, true);
}

// PyTorch before 2.10 does not support these types in DLPack.
bool is_new_in_dlpack(DType dtype) {
  const std::string_view name = name_of(dtype);
  return name.starts_with("float8") || name.starts_with("float4");
}

// Returns the memory as integers, for consumers that lack the element type or set it later.
Memory bits(Memory memory) {
  DType& dtype = memory.layout.dtype;
  if (!to_dlpack(dtype) || is_new_in_dlpack(dtype))
    dtype = item_bytes(dtype) == 1   ? DType::kUInt8
            : item_bytes(dtype) == 2 ? DType::kUInt16
                                     : DType::kUInt32;
  return memory;
}

std::string name_of(const Device& device) {
  return device.is_cuda() ? "cuda:" + std::to_string(device.ordinal) : "cpu";
}

std::string repr(const Memory& memory) {
  const auto shape = nb::cast<std::string>(nb::repr(to_tuple(memory.layout.shape)));
  return "<tensorbus.Memory " + std::string(name_of(memory.layout.dtype)) + " " + shape +
         (memory.device.is_cuda() ? " " + name_of(memory.device) : "") +
         (memory.may_be_written() ? ">" : " read-only>");
}

}  // namespace

nb::tuple to_tuple(const Dims& dims) {
  nb::list list;
  for (const std::int64_t value : dims) list.append(value);
  return nb::tuple(list);
}

Memory memory_of(const bus::Tensor& tensor, const ReceivedSample& sample) {
  auto owner = std::make_shared<bus::Tensor>(tensor);
  return {
      .layout = tensor.layout(),
      .first = const_cast<std::byte*>(tensor.data()),
      .writable = tensor.writable(),
      .owner = owner,
      .source = sample.header().topic,
      .on_write = sample.strict ? Memory::OnWrite::kEndsProcess : Memory::OnWrite::kPrivatePages,
      .sample = sample.number,
      .device = tensor.device(),
      .published_on = tensor.published_on(),
      .received = owner.get()};
}

std::shared_ptr<std::byte[]> copy_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kCacheLine = 64;
  const auto room = std::make_shared_for_overwrite<std::byte[]>(bytes.size() + kCacheLine - 1);
  const auto place = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  std::byte* const copy = room.get() + (place(bytes.data()) - place(room.get())) % kCacheLine;
  std::memcpy(copy, bytes.data(), bytes.size());
  return {room, copy};
}

std::span<const std::byte> touched_bytes(const Memory& memory) {
  const ByteSpan span = span_of(memory.layout);
  return {memory.first + span.begin, span.bytes()};
}

void point_at_copy(Memory& memory, std::span<const std::byte> bytes,
                   const std::shared_ptr<std::byte[]>& copy) {
  memory.first = copy.get() + (memory.first - bytes.data());
  memory.owner = copy;
  memory.received = nullptr;
  memory.on_write = Memory::OnWrite::kChangesCopy;
}

void WriteWatch::begin(const Memory& memory) {
  using OnWrite = Memory::OnWrite;
  if (memory.writable || memory.device.is_cuda() || memory.on_write == OnWrite::kChangesCopy)
    return;
  const auto bytes = memory.overlap.empty() ? touched_bytes(memory) : memory.overlap;
  if (bytes.empty()) return;
  if (memory.on_write == OnWrite::kEndsProcess)
    note.emplace(bytes, memory.source, memory.from);
  else if (platform::CopyOnWrite::is_possible(bytes))  // otherwise only this package reads `memory`
    copy_on_write.emplace(bytes, memory.source, memory.sample);
}

Memory memory_of(bus::Loan loan) {
  auto owner = std::make_shared<bus::Loan>(std::move(loan));
  return {.layout = owner->layout(),
          .first = owner->data(),
          .writable = true,
          .owner = owner,
          .source = {},
          .device = owner->device(),
          .published_on = owner->device()};
}

Memory packed(const Memory& memory) {
  if (memory.device.is_cuda())
    throw Error(Code::kUnsupported, "this tensor is on a GPU: copy it there, by sample.copy()");
  Layout once = memory.layout;  // with each repeated element once
  for (std::size_t i = 0; i < once.shape.size(); ++i)
    if (once.strides[i] == 0) once.shape[i] = std::min<std::int64_t>(once.shape[i], 1);
  if (once.packed_bytes() > span_of(once).bytes())
    throw Error(Code::kUnsupported, "a tensor with overlapping elements cannot be copied");
  const auto copy = run_without_gil([&] { return tensor::private_copy_of(memory.first, once); });
  Layout layout = Layout::contiguous(once.dtype, once.shape, once.flags);
  layout.shape = memory.layout.shape;
  for (std::size_t i = 0; i < once.shape.size(); ++i)
    if (once.strides[i] == 0) layout.strides[i] = 0;
  return {.layout = std::move(layout),
          .first = copy.get(),
          .writable = true,
          .owner = copy,
          .source = {},
          .published_on = memory.published_on};
}

Device device_numbered(int ordinal) { return ordinal < 0 ? Device::host() : Device::cuda(ordinal); }

Layout layout_named(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  const auto known = dtype_named(dtype);
  if (!known) throw Error(Code::kUnsupported, "dtype " + dtype + " cannot be sent");
  return Layout::contiguous(*known, Dims(std::span<const std::int64_t>(shape)));
}

void bind_memory(nb::module_& module) {
  nb::enum_<TensorFlags>(module, "TensorFlags", nb::is_arithmetic(), nb::is_flag())
      .value("REQUIRES_GRAD", TensorFlags::kRequiresGrad)
      .value("FROM_TORCH", TensorFlags::kFromTorch)
      .value("FROM_NUMPY", TensorFlags::kFromNumpy)
      .value("PARAMETER", TensorFlags::kParameter)
      .value("CONJUGATE", TensorFlags::kConjugate)
      .value("NEGATIVE", TensorFlags::kNegative);

  nb::class_<Memory>(
      module, "Memory", nb::type_slots(memory_slots),
      "Memory of the bus: a received tensor, a loan, or a part of a file. Supports the buffer "
      "protocol and DLPack. Strides are in elements.")
      .def_prop_ro("dtype", [](const Memory& self) { return name_of(self.layout.dtype); })
      .def_prop_ro(
          "shape", [](const Memory& self) { return to_tuple(self.layout.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const Memory& self) { return to_tuple(self.layout.strides); },
          nb::sig("def strides(self) -> tuple[int, ...]"))
      .def_prop_ro("flags",
                   [](const Memory& self) { return static_cast<unsigned>(self.layout.flags); })
      .def_prop_ro("writable", &Memory::may_be_written)
      .def("__dlpack__", dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(),
           "Returns a DLPack capsule. Its consumer keeps the memory alive.")
      .def("bits", bits,
           "Returns the same memory, as unsigned integers if DLPack, or PyTorch before 2.10, has "
           "no type for its elements.")
      .def("packed", packed,
           "Returns a writable copy without negative strides. Repeated elements (stride 0) stay "
           "repeated.")
      .def("__dlpack_device__", dlpack_device)
      .def_prop_ro("__cuda_array_interface__", cuda_array_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"))
      .def_prop_ro(
          "device", [](const Memory& self) { return name_of(self.device); },
          "\"cpu\", or the GPU, for example \"cuda:0\".")
      .def_prop_ro(
          "published_on", [](const Memory& self) { return name_of(self.published_on); },
          "The device of the publisher's tensor; differs from `device` if this process cannot use "
          "it.")
      .def("__repr__", repr);
}

}  // namespace tensorbus::python
