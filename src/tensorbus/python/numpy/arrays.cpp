// Reads and makes NumPy arrays through NumPy's ABI, which takes a tenth of the time of the buffer
// protocol. tensorbus/_tensors/numpy_arrays.py and tensorbus/_codec/numpy_records.py handle unusual
// arrays.
#include "tensorbus/python/numpy/arrays.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tensorbus/python/numpy/numpy.hpp"

namespace tensorbus::python {
namespace {

const Numpy* numpy_with_api() noexcept {
  const Numpy* const numpy = known_numpy();
  return numpy != nullptr && numpy->api != nullptr ? numpy : nullptr;
}

// Keeps the owner of an array's memory, and handles writes to it.
struct WatchedOwner {
  explicit WatchedOwner(std::shared_ptr<void> kept) : owner(std::move(kept)) {}

  const std::shared_ptr<void> owner;
  WriteWatch writes;
};

void watch_writes(Memory& memory) {
  if (memory.writable || memory.on_write == Memory::OnWrite::kChangesCopy) return;
  auto watched = std::make_shared<WatchedOwner>(memory.owner);
  watched->writes.begin(memory);
  memory.owner = std::move(watched);
}

}  // namespace

std::optional<TensorView> view_of_plain_array(nb::handle value) {
  const Numpy* const numpy = numpy_with_api();
  if (numpy == nullptr || Py_TYPE(value.ptr()) != numpy->array) return std::nullopt;
  const auto& array = *reinterpret_cast<const numpy_abi::Array*>(value.ptr());
  const Numpy::Kind* const kind = numpy->kind_of_descr(array.descr);
  if (kind == nullptr) return std::nullopt;
  const auto dims = static_cast<std::size_t>(array.dims);
  const auto item = static_cast<std::int64_t>(item_bytes(kind->dtype));
  if ((array.flags & numpy_abi::kContiguous) != 0) {
    // Not array.strides: strides of empty arrays, and of dimensions of size 1, may have any value.
    Dims shape(dims);
    std::copy_n(array.shape, dims, shape.begin());
    return TensorView{array.data,
                      Layout::contiguous(kind->dtype, std::move(shape), TensorFlags::kFromNumpy)};
  }
  Layout layout{kind->dtype, Dims(dims), Dims(dims), TensorFlags::kFromNumpy};
  for (std::size_t i = 0; i < dims; ++i) {
    if (array.strides[i] % item != 0) return std::nullopt;
    layout.shape[i] = array.shape[i];
    layout.strides[i] = array.strides[i] / item;
  }
  return TensorView{array.data, std::move(layout)};
}

std::optional<DType> dtype_of_numpy(nb::handle value) {
  const Numpy* const numpy = numpy_with_api();
  if (numpy == nullptr) return std::nullopt;
  const Numpy::Kind* kind = numpy->kind_of_descr(value.ptr());
  if (kind == nullptr && PyType_Check(value.ptr()))
    kind = numpy->kind_of_scalar(reinterpret_cast<const PyTypeObject*>(value.ptr()));
  if (kind == nullptr && PyUnicode_CheckExact(value.ptr()) && is_ascii(value.ptr())) {
    const auto dtype = dtype_named(utf8_of(value));
    kind = dtype ? numpy->kind_of(*dtype) : nullptr;
  }
  return kind != nullptr ? std::optional(kind->dtype) : std::nullopt;
}

bool can_be_plain_array(const Memory& memory) {
  const Numpy* const numpy = numpy_with_api();
  return numpy != nullptr && memory.device.is_host() &&
         !has(memory.layout.flags, TensorFlags::kConjugate) &&
         !has(memory.layout.flags, TensorFlags::kNegative) &&
         numpy->kind_of(memory.layout.dtype) != nullptr;
}

nb::object make_plain_array(Memory memory) {
  const Numpy& numpy = *known_numpy();
  const Layout& layout = memory.layout;
  const Numpy::Kind& kind = *numpy.kind_of(layout.dtype);
  const auto item = static_cast<Py_ssize_t>(item_bytes(layout.dtype));
  std::array<Py_ssize_t, kMaxDims> shape{};
  std::array<Py_ssize_t, kMaxDims> strides{};
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    shape[i] = layout.shape[i];
    // The stride of a dimension of size 1 is not used, and a peer may send any value.
    if (__builtin_mul_overflow(layout.strides[i], item, &strides[i])) strides[i] = item;
  }
  static std::byte nothing[16]{};  // an empty tensor may have no address, an array needs one
  void* const data = memory.first != nullptr ? memory.first : nothing;
  const int flags = memory.may_be_written() ? numpy_abi::kWriteable : 0;
  const auto make = numpy.function<numpy_abi::NewFromDescr>(numpy_abi::kNewFromDescr);
  nb::object array =
      checked(make(numpy.array, Py_NewRef(kind.descr), static_cast<int>(layout.shape.size()),
                   shape.data(), strides.data(), data, flags, nullptr));
  watch_writes(memory);
  PyObject* const base = nb::cast(std::move(memory)).release().ptr();
  const auto keep = numpy.function<numpy_abi::SetBaseObject>(numpy_abi::kSetBaseObject);
  if (keep(array.ptr(), base) != 0) throw nb::python_error();
  return array;
}

}  // namespace tensorbus::python
