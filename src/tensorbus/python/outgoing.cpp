#include "tensorbus/python/outgoing.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>

#include "tensorbus/python/dlpack/dlpack.hpp"
#include "tensorbus/python/keepers.hpp"
#include "tensorbus/python/memory.hpp"
#include "tensorbus/python/numpy/arrays.hpp"
#include "tensorbus/python/numpy/numpy.hpp"
#include "tensorbus/python/torch.hpp"

namespace tensorbus::python {
namespace {

template <typename T>
DType integer(bool is_signed) {
  return is_signed ? dtype_of<std::make_signed_t<T>>() : dtype_of<std::make_unsigned_t<T>>();
}

// Returns the dtype of a format of the struct module; nothing for other formats and byte orders.
std::optional<DType> dtype_of_format(const char* text) {
  if (text == nullptr) return DType::kUInt8;
  std::string_view format(text);
  if (format.size() > 1 && format.front() == '@') format.remove_prefix(1);
  if (format == "Zf") return DType::kComplex64;
  if (format == "Zd") return DType::kComplex128;
  if (format.size() != 1) return std::nullopt;
  switch (format.front()) {
    case '?':
      return DType::kBool;
    case 'b':
      return DType::kInt8;
    case 'B':
    case 'c':
      return DType::kUInt8;
    case 'h':
    case 'H':
      return integer<short>(format.front() == 'h');
    case 'i':
    case 'I':
      return integer<int>(format.front() == 'i');
    case 'l':
    case 'L':
      return integer<long>(format.front() == 'l');
    case 'q':
    case 'Q':
      return integer<long long>(format.front() == 'q');
    case 'e':
      return DType::kFloat16;
    case 'f':
      return DType::kFloat32;
    case 'd':
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

constexpr TensorFlags kKnownFlags = TensorFlags::kRequiresGrad | TensorFlags::kFromTorch |
                                    TensorFlags::kFromNumpy | TensorFlags::kParameter |
                                    TensorFlags::kConjugate | TensorFlags::kNegative;

// A Py_buffer, released by the destructor.
class Buffer {
 public:
  explicit Buffer(nb::handle value)
      : valid_(PyObject_GetBuffer(value.ptr(), &view_, PyBUF_FULL_RO) == 0) {
    if (!valid_) PyErr_Clear();
  }
  ~Buffer() {
    if (valid_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Returns nothing for unknown element types, and for strides that are not multiples of an
  // element.
  std::optional<TensorView> view(TensorFlags flags) const {
    const auto dtype = valid_ ? dtype_of_format(view_.format) : std::nullopt;
    if (!dtype || view_.suboffsets != nullptr) return std::nullopt;
    const auto item = static_cast<Py_ssize_t>(item_bytes(*dtype));
    if (item != view_.itemsize) return std::nullopt;
    const auto dims = static_cast<std::size_t>(view_.ndim);
    Layout layout{*dtype, Dims(dims), Dims(dims), flags};
    for (std::size_t i = 0; i < dims; ++i) {
      if (view_.strides[i] % item != 0) return std::nullopt;
      layout.shape[i] = view_.shape[i];
      layout.strides[i] = view_.strides[i] / item;
    }
    return TensorView{view_.buf, std::move(layout)};
  }

 private:
  Py_buffer view_{};
  bool valid_;
};

}  // namespace

std::optional<TensorView> plain_view_of(nb::handle value) {
  const Numpy* const numpy = known_numpy();
  if (numpy == nullptr || Py_TYPE(value.ptr()) != numpy->array) return view_of_plain_torch(value);
  auto view = view_of_plain_array(value);
  return view ? std::move(view) : Buffer(value).view(TensorFlags::kFromNumpy);
}

std::optional<TensorView> writable_view_of(nb::handle value) {
  const Numpy* const numpy = known_numpy();
  if (numpy == nullptr || Py_TYPE(value.ptr()) != numpy->array) return view_of_plain_torch(value);
  const auto& array = *reinterpret_cast<const numpy_abi::Array*>(value.ptr());
  return (array.flags & numpy_abi::kWriteable) != 0 ? view_of_plain_array(value) : std::nullopt;
}

int Outgoing::append(TensorView view, nb::object keeper) {
  taken_ = false;
  tensors_.push_back(std::move(view));
  keepers_.push_back(std::move(keeper));
  return static_cast<int>(tensors_.size()) - 1;
}

// The view of GPU memory keeps the memory, because it may be read in place.
int Outgoing::append_kept(TensorView view, nb::object keeper) {
  if (view.device.is_cuda()) view.keeper = keeper_of(keeper);
  return append(std::move(view), std::move(keeper));
}

void Outgoing::clear() {
  tensors_.clear();
  indices_.clear();
  keepers_.clear();
}

int Outgoing::add(nb::handle value) {
  const int known = indices_.find(value.ptr());
  if (known >= 0) return known;
  auto view = plain_view_of(value);
  if (!view) return -1;
  const int index = append(std::move(*view), nb::borrow(value));
  indices_.enter(value.ptr(), index);
  return index;
}

int Outgoing::add_buffer(nb::handle value, TensorFlags flags) {
  auto view = Buffer(value).view(flags);
  return view ? append(std::move(*view), nb::borrow(value)) : -1;
}

int Outgoing::add_received(nb::object memory) {
  const auto& known = nb::cast<const Memory&>(memory);
  return append({known.first, known.layout, known.device}, std::move(memory));
}

int Outgoing::add_capsule(nb::capsule capsule, TensorFlags flags) {
  TensorView view = view_of_capsule(capsule);
  view.layout.flags = flags;
  return append_kept(std::move(view), std::move(capsule));
}

int Outgoing::add_memory(std::uintptr_t address, const std::string& dtype,
                         const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides, TensorFlags flags,
                         nb::object keeper, Device device, std::uintptr_t stream) {
  const auto known = dtype_named(dtype);
  if (!known) throw Error(Code::kUnsupported, "dtype " + dtype + " cannot be sent");
  TensorView view{reinterpret_cast<const void*>(address),
                  {*known, Dims(std::span(shape)), Dims(std::span(strides)), flags},
                  device,
                  reinterpret_cast<void*>(stream)};
  return append_kept(std::move(view), std::move(keeper));
}

int Outgoing::add_at(nb::handle loan, const std::string& dtype,
                     const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, TensorFlags flags,
                     std::int64_t offset) {
  // The attribute raises if the memoryview was released; PyMemoryView_GET_BASE does not check this.
  const nb::object whole = PyMemoryView_Check(loan.ptr()) ? loan.attr("obj") : nb::none();
  const Memory* memory = nullptr;
  if (!nb::try_cast(whole, memory) || memory == nullptr)
    throw Error(Code::kInvalidArgument, "loan: expected a memoryview of loan_bytes()");
  const auto known = dtype_named(dtype);
  if (!known) throw Error(Code::kUnsupported, "dtype " + dtype + " cannot be sent");
  if ((kKnownFlags | flags) != kKnownFlags)
    throw Error(Code::kUnsupported, "a tensor has unknown flags");
  Layout layout{*known, Dims(std::span(shape)), Dims(std::span(strides)), flags};
  const ByteSpan span = span_of(layout);
  const auto bytes = static_cast<std::int64_t>(memory->layout.packed_bytes());
  if (span.bytes() == 0) return append({memory->first, std::move(layout)}, nb::borrow(loan));
  if (offset < -span.begin || offset > bytes - span.end)
    throw Error(Code::kInvalidArgument, "a tensor at offset " + std::to_string(offset) +
                                            " reaches outside of the " + std::to_string(bytes) +
                                            " bytes of its sample");
  return append({memory->first + offset, std::move(layout)}, nb::borrow(loan));
}

void Outgoing::set_stream(std::uintptr_t stream) {
  for (TensorView& view : tensors_) view.stream = reinterpret_cast<void*>(stream);
}

void bind_outgoing(nb::module_& module) {
  const auto flags = nb::arg("flags");
  nb::class_<Outgoing>(module, "Outgoing",
                       "The tensors of a message to be published. Each add method returns the "
                       "index of the added tensor.")
      .def(nb::init<>())
      .def("__len__", &Outgoing::size)
      .def("add", &Outgoing::add, nb::arg("value"), nb::sig("def add(self, value: object) -> int"),
           "Adds a plain torch.Tensor or numpy.ndarray: nothing but its elements and layout must "
           "be sent. Returns -1 for any other object.")
      .def(
          "add_buffer",
          [](Outgoing& self, nb::handle value, unsigned bits) {
            return self.add_buffer(value, static_cast<TensorFlags>(bits));
          },
          nb::arg("value"), flags,
          nb::sig("def add_buffer(self, value: object, flags: int) -> int"),
          "Adds an object with the buffer protocol whose elements have a dtype. Returns -1 for any "
          "other object.")
      .def("add_received", &Outgoing::add_received, nb::arg("memory"),
           nb::sig("def add_received(self, memory: Memory) -> int"),
           "Adds a Memory as it is: a received one, or one of this process.")
      .def(
          "add_capsule",
          [](Outgoing& self, nb::capsule capsule, unsigned bits) {
            return self.add_capsule(std::move(capsule), static_cast<TensorFlags>(bits));
          },
          nb::arg("capsule"), flags)
      .def(
          "add_memory",
          [](Outgoing& self, std::uintptr_t address, const std::string& dtype,
             const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
             unsigned bits, nb::object keeper, int device, std::uintptr_t stream) {
            return self.add_memory(address, dtype, shape, strides, static_cast<TensorFlags>(bits),
                                   std::move(keeper), device_numbered(device), stream);
          },
          nb::arg("address"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"), flags,
          nb::arg("keeper"), nb::arg("device") = -1, nb::arg("stream") = 0,
          nb::sig("def add_memory(self, address: int, dtype: str, shape: "
                  "collections.abc.Sequence[int], strides: "
                  "collections.abc.Sequence[int], flags: int, keeper: object, device: int = -1, "
                  "stream: int = 0) "
                  "-> int"),
          "Adds memory that the caller describes. Strides are in elements. `keeper` is kept until "
          "the memory was copied; for GPU memory, as long as it is read. `device`: the ordinal of "
          "the GPU, -1 for main memory. `stream`: the CUDA stream that writes the memory.")
      .def(
          "add_at",
          [](Outgoing& self, nb::handle loan, const std::string& dtype,
             const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
             std::uint8_t bits, std::int64_t offset) {
            return self.add_at(loan, dtype, shape, strides, static_cast<TensorFlags>(bits), offset);
          },
          nb::arg("loan"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"), flags,
          nb::arg("offset"),
          nb::sig("def add_at(self, loan: memoryview, dtype: str, shape: "
                  "collections.abc.Sequence[int], strides: collections.abc.Sequence[int], "
                  "flags: int, offset: int) -> int"),
          "Adds a tensor in a loan of bytes. Strides are in elements, the offset of the first "
          "element is in bytes. Raises InvalidArgument if the tensor reaches outside of the loan.")
      .def("set_stream", &Outgoing::set_stream, nb::arg("stream"),
           "Sets the CUDA stream that writes all tensors on GPUs.");
}

}  // namespace tensorbus::python
